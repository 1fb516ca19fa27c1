"""Kinds of files that a registry does not keep: whatever can hold a pickle, by its name or by its first bytes.

A pickle runs code when it is loaded. `torch.save` writes a zip archive with a pickle in it, older releases a bare
pickle; NumPy's files may hold pickled objects. The first bytes are looked at because a name is only a claim.
"""

from __future__ import annotations

#: `training_args.bin`, `optimizer.pt` and `vocab_mapping.pt` of trainers are among them.
_ENDINGS = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".dill", ".npy", ".npz")
#: The first byte of protocols 2 to 5, which no text begins with. Protocols 0 and 1 have no mark.
_PICKLE_MARK = 0x80
_PICKLE_PROTOCOLS = range(2, 6)
_MAGIC = (
    (b"PK\x03\x04", "a zip archive, as torch.save writes it around a pickle"),
    (b"\x93NUMPY", "a NumPy array, which may hold pickled objects"),
)

#: How many of a file's first bytes `told_by_bytes` looks at.
LOOKED_AT = 8


def told_by_name(path: str) -> str:
    """Why a file of that name is not stored, or ""."""
    return "by its name a pickle" if path.lower().endswith(_ENDINGS) else ""


def told_by_bytes(head: bytes) -> str:
    """Why a file that begins so is not stored, or "".

    Args:
        head: The file's first `LOOKED_AT` bytes, fewer if it is shorter.
    """
    if len(head) > 1 and head[0] == _PICKLE_MARK and head[1] in _PICKLE_PROTOCOLS:
        return "a pickle"
    return next((what for magic, what in _MAGIC if head.startswith(magic)), "")
