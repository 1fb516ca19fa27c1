"""vLLM: what its releases do with a drafter, derived from their own source as for SGLang (see `engines.scan`)."""
