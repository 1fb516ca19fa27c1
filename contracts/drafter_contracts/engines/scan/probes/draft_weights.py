"""Which tensors a drafter's class loads, and whose embeddings and head it ends up with."""

from __future__ import annotations

import ast

from drafter_contracts.engines.scan.probes.draft_build import Built
from drafter_contracts.engines.scan.probes.extract import Site, called_name, compile_site, sites
from drafter_contracts.engines.scan.probes.layers import RECORD, Leaf, Loaded, Tensor, is_embedding, is_linear
from drafter_contracts.engines.scan.standins import Standin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.scan.lazy import LazyRelease

#: Workers that hand the target's embeddings and head to a drafter.
WORKERS = ("speculative/eagle_worker.py", "speculative/eagle_worker_v2.py")


def load(built: Built, groups: list[list[str]]) -> list[dict[str, object]]:
    """Offer groups of tensors to the class's loader, each as if it were all that the checkpoint has.

    Returns:
        For every group "names"; "loaded": number of parameters that were given a tensor; "kept": attributes that now
        hold one, with how it was made ("offset", "as it is"); "error" and "always": exception with these tensors and
        without any, or "".
    """
    if built.model is None:
        return []
    modules = [module for _, module in built.model.named_modules()]  # type: ignore[attr-defined]
    before = [(vars(module), dict(vars(module))) for module in modules]

    def offered(names: list[str]) -> tuple[int, dict[str, str], str]:
        found = _offer(built, names)
        for held, values in before:
            held.clear()
            held.update(values)
        return found

    _, always_kept, always = offered([])
    results = []
    for names in groups:
        loaded, kept, error = offered(names)
        new = {name: made for name, made in kept.items() if name not in always_kept}
        results.append({"names": names, "loaded": loaded, "kept": new, "error": error, "always": always})
    return results


def _offer(built: Built, names: list[str]) -> tuple[int, dict[str, str], str]:
    RECORD.reset()
    error = ""
    try:
        built.model.load_weights((name, Loaded(name)) for name in names)  # type: ignore[attr-defined]
    except Exception as problem:  # noqa: BLE001 - whatever the release raises is the answer
        error = f"{type(problem).__name__}: {problem}"
    kept = {name: str(value.made) for name, value in RECORD.changed if isinstance(value, Loaded)}
    return len(RECORD.loaded), kept, error


class Worker:
    """The statement of a worker that shares the target's embeddings and head with the drafter.

    Args:
        release: The release.
        path: File of the worker.
        method: Algorithm the worker runs ("EAGLE3", "EAGLE").

    Raises:
        LookupError: There is no such statement, or no such algorithm.
    """

    def __init__(self, release: LazyRelease, path: str, method: str) -> None:
        tree = release.module(path)._index.tree  # noqa: SLF001 - a lazy module's attributes are the release's names
        found = [site for site in sites(path, tree, lambda node: called_name(node) == "set_embed") if _decides(site)]
        if not found:
            raise LookupError(f"{path} shares no embeddings")
        self.site = found[0]
        self._step, self._names = compile_site(release, self.site)
        algorithms = release.module("speculative/spec_info.py").SpeculativeAlgorithm
        try:
            self._algorithm = getattr(algorithms, "from_string")(method)  # noqa: B009 - an object of the release
        except Exception as error:
            raise LookupError(f"the release has no algorithm {method}") from error

    def share(self, built: Built, *, mapped: bool) -> dict[str, str]:
        """Whose embeddings and head the drafter has afterwards.

        Args:
            built: The drafter.
            mapped: Its checkpoint had a map from draft to target tokens.

        Returns:
            "embed" and "lm_head": "target", "own" or (head only) "embed"; "error": exception, or "".
        """
        if mapped:
            _offer(built, ["d2t"])
        embed, head = Tensor(1, "target embedding"), Tensor(1, "target head")
        worker = Standin("worker")
        worker.speculative_algorithm = self._algorithm
        worker.hot_token_id = None
        worker.draft_model_runner.model = worker.draft_runner.model = built.model
        known = {"self": worker, "embed": embed, "head": head}
        error = ""
        try:
            self._step(**{name: known.get(name, Standin(name)) for name in self._names})
        except Exception as problem:  # noqa: BLE001 - whatever the release raises is the answer
            error = f"{type(problem).__name__}: {problem}"
        return {**owners(built, embed, head), "error": error}


def _decides(site: Site) -> bool:
    return isinstance(site.statement, ast.If) and "is_eagle3" in ast.unparse(site.statement.test)


def owners(built: Built, embed: object = None, head: object = None) -> dict[str, str]:
    """Whose embeddings and head a built drafter has; one that it does not have is the target's."""
    embeddings = built.embeddings()
    # Not every table of the vocabulary's size embeds tokens: DSPARK's Markov head has two of its own.
    tables = [leaf for name, leaf in embeddings.items() if "embed" in name.rpartition(".")[2]]
    top = getattr(built.model, "lm_head", None)
    # A class may keep the target's table beside one of its own, which then serves as its head alone.
    beside = embed is not None and any(value is embed for value in vars(built.model).values())
    table = "target" if not tables or beside else _owner(tables[0], embed)
    if not isinstance(top, Leaf) or not (is_embedding(top) or is_linear(top)):
        whose = "target"
    elif any(top is one for one in tables):
        whose = "own" if beside else "embed"
    else:
        whose = _owner(top, head)
    return {"embed": table, "lm_head": whose}


def _owner(leaf: Leaf, theirs: object) -> str:
    if any(key in ("num_embeddings", "embedding_dim") and value is None for key, value in leaf._given.items()):  # noqa: SLF001 - a leaf's own record
        return "error"
    return "target" if theirs is not None and vars(leaf).get("weight") is theirs else "own"
