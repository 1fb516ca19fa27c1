"""Renders on this machine: directories that an engine release loads, made from verified files of the cache."""
