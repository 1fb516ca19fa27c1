"""What a drafter was promised to be accepted, what an engine is seen to accept, and whether that is the same."""
