"""Digests of sample files, so that evidence says what it looked at."""

from __future__ import annotations

import hashlib
import os

from drafter_contracts.errors import SampleError
from drafter_contracts.values.samples.deepspec import cache_files, is_cache
from drafter_contracts.values.samples.mapped import open_sample

_PIECE = 1 << 20


def file_sha256(path: str) -> str:
    """Digest of a sample's file, read once and in pieces.

    Args:
        path: The file; or the folder of a DeepSpec cache, whose digest is that of "NAME SHA256" lines of its
            manifest, index and shards, in that order.

    Returns:
        Sha256, hexadecimal.

    Raises:
        SampleError: It cannot be read, or is another kind of folder.
    """
    if os.path.isdir(path):
        if not is_cache(path):
            raise SampleError("a folder has no digest; its files have", where=path)
        lines = "".join(f"{name} {file_sha256(os.path.join(path, name))}\n" for name in cache_files(path))
        return hashlib.sha256(lines.encode()).hexdigest()
    file, _ = open_sample(path)
    with file:
        try:
            digest = hashlib.sha256()
            while piece := file.read(_PIECE):
                digest.update(piece)
            return digest.hexdigest()
        except OSError as error:
            raise SampleError("cannot be read", where=path, actual=error.strerror or str(error)) from None
