"""Find a model's directory without the network: a local directory, or the Hugging Face Hub's offline cache.

The cache's place and layout are `huggingface_hub`'s (`constants.py`, "Understand caching" of its documentation):
`models--ORG--NAME/refs/REVISION` holds a commit, `models--ORG--NAME/snapshots/COMMIT` the files. That library is
not imported: reading two small files does not need it, and the gate has no time for it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: A ref file holds one commit id.
_REF_MAX_BYTES = 256


def cache_directory(environment: Mapping[str, str] | None = None) -> str:
    """The Hub cache that a process with these variables would use.

    Args:
        environment: Variables of that process; None for this process's own.

    Returns:
        HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else
        ~/.cache/huggingface/hub. It need not exist.
    """
    variables = os.environ if environment is None else environment
    home = variables.get("HOME") or os.path.expanduser("~")
    cache = variables.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    hub_home = variables.get("HF_HOME") or os.path.join(cache, "huggingface")
    found = variables.get("HF_HUB_CACHE") or variables.get("HUGGINGFACE_HUB_CACHE") or os.path.join(hub_home, "hub")
    return os.path.join(home, found[2:]) if found.startswith("~/") else found


def _is_repo_id(text: str) -> bool:
    """Whether a text can name a repository of the Hub: NAME or ORG/NAME."""
    parts = text.split("/")
    return 1 <= len(parts) <= 2 and all(part and part[0] not in ".-~" and part == part.strip() for part in parts)


def _commit(repository: str, revision: str) -> str:
    """The commit that a branch, tag or commit id stands for in a cached repository, or ""."""
    if ".." in revision.split("/") or revision.startswith("/"):
        return ""
    if os.path.isdir(os.path.join(repository, "snapshots", revision)):
        return revision
    try:
        with open(os.path.join(repository, "refs", revision), encoding="utf-8") as file:
            commit = file.read(_REF_MAX_BYTES).strip()
    except (OSError, UnicodeDecodeError, ValueError):
        return ""
    return commit if commit and "/" not in commit and commit != ".." else ""


def find(path_or_id: str, revision: str = "", *, environment: Mapping[str, str] | None = None) -> str | None:
    """The directory of a model that is on this machine, or None.

    Args:
        path_or_id: A local directory, or a Hub id "ORG/NAME".
        revision: Branch, tag or commit for a Hub id; "" for "main".
        environment: Variables of the process that will load the model; None for this process's own.

    Returns:
        The directory as given, or the snapshot in the Hub's cache. Never a download.
    """
    if not path_or_id or "\0" in path_or_id or "\0" in revision:
        return None
    if os.path.isdir(path_or_id):
        return path_or_id
    if not _is_repo_id(path_or_id):
        return None
    repository = os.path.join(cache_directory(environment), "models--" + path_or_id.replace("/", "--"))
    commit = _commit(repository, revision or "main")
    snapshot = os.path.join(repository, "snapshots", commit)
    return snapshot if commit and os.path.isdir(snapshot) else None
