"""Why the drafter of a running engine is not accepted: everything that can be looked at, and what follows."""
