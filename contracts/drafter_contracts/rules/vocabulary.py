"""The draft vocabulary, its map to the target's, and whose head and embeddings are used."""

from __future__ import annotations

from drafter_contracts.engines.profile import FITTED
from drafter_contracts.rules.captured import source_text
from drafter_contracts.rules.rule import Rule, drafter, engine, whole
from drafter_contracts.verdict import NOTE, REFUSE, WARN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.rules.rule import Outcome
    from drafter_contracts.situation import Situation

HEAD_NAMES = ("lm_head.weight", "model.lm_head.weight")


def head_case(s: Situation) -> str:
    """Which case of the class's head handling the drafter's config is: see `Drafter.lm_head`."""
    config = s.draft_config
    if config.get("tie_word_embeddings") is True:
        return "tied"
    if (
        "draft_vocab_size" not in config
        and s.draft_class is not None
        and "draft_vocab_missing" in s.draft_class.lm_head
    ):
        return "draft_vocab_missing"
    return "own" if whole(config.get("draft_vocab_size")) is not None else "draft_vocab_null"


def head(s: Situation) -> Outcome:
    """The head that the release uses is there, and is the trained one."""
    known, facts = s.draft_class, s.drafter
    if known is None or facts is None or known.status != FITTED or facts.has_lm_head is None or not known.lm_head:
        return None
    case = head_case(s)
    used = known.lm_head.get(case, "")
    why = {
        "tied": "tie_word_embeddings is true",
        "draft_vocab_null": "draft_vocab_size is null",
        "draft_vocab_missing": "its config has no draft_vocab_size",
        "own": f"draft_vocab_size is {s.draft_config.get('draft_vocab_size')}",
    }[case]
    if not used:
        return None
    if used == "error":
        remedy = "State draft_vocab_size in its config (null for the target's head)."
        return (_head(s, REFUSE, f"{engine(s)} fails to build {drafter(s)}: {why}", "a head", "an exception", remedy),)
    if used == "own" and not facts.has_lm_head:
        return (_random_head(s, why, borrows=known.lm_head.get("draft_vocab_null") == "target"),)
    if used in {"target", "embed"} and facts.has_lm_head:
        return (_replaced_head(s, "the target's head" if used == "target" else "the embeddings", why, case),)
    return ()


def _random_head(s: Situation, why: str, *, borrows: bool) -> Finding:
    return _head(
        s,
        REFUSE,
        f"{drafter(s)} has no head, and {engine(s)} does not borrow the target's because {why}: it drafts with a random"
        " one",
        "its own lm_head.weight, or the target's",
        "a head left as initialised",
        "If it was trained with the target's head, set draft_vocab_size to null in its config."
        if borrows
        else "Add lm_head.weight to the checkpoint.",
    )


def _replaced_head(s: Situation, whose: str, why: str, case: str) -> Finding:
    own = s.requirements.lm_head == "own" or (s.drafter is not None and s.drafter.vocabulary.reduced)
    change = "Set tie_word_embeddings to false" if case == "tied" else "State draft_vocab_size"
    return _head(
        s,
        REFUSE if own else NOTE,
        f"{engine(s)} replaces the head of {drafter(s)} by {whose}, because {why}",
        "its own lm_head.weight" if own else "",
        whose,
        f"{change} in its config, so that its own head is used." if own else "",
    )


def _head(s: Situation, severity: str, message: str, expected: str, actual: str, remedy: str) -> Finding:
    place = source_text(s, s.draft_class.source) if s.draft_class is not None else ""
    return Finding("DRAFT_HEAD", severity, message, expected, actual, place, remedy)


def embeddings(s: Situation) -> Outcome:
    """The embeddings that the release uses are those trained with."""
    known, facts = s.draft_class, s.drafter
    if known is None or facts is None or known.status != FITTED or facts.has_embedding is None or not known.embed:
        return None
    differs = facts.target_hidden_size is not None and facts.target_hidden_size != facts.hidden_size
    own = known.embed == "own" or (known.embed.startswith("target unless") and differs)
    place = source_text(s, known.source)
    if facts.has_embedding:
        return () if own else (_replaced_embeddings(s, place),)
    if own:
        fault = f"{engine(s)} uses the drafter's own embeddings, and {drafter(s)} ships none"
        actual = "embeddings left as initialised"
    elif s.requirements.embeddings == "own":
        fault = f"{drafter(s)} was trained with embeddings of its own that its checkpoint lacks"
        actual = "the target's embeddings"
    else:
        return ()
    remedy = "Export the drafter with its embeddings."
    return (Finding("DRAFT_EMBEDDINGS", REFUSE, fault, "embed_tokens.weight", actual, place, remedy),)


def _replaced_embeddings(s: Situation, place: str) -> Finding:
    trained = s.requirements.embeddings
    severity, why, remedy = {
        "own": (REFUSE, "it was trained with its own", "Serve it on an engine that keeps a drafter's own embeddings."),
        "target": (
            WARN,
            "harmless here, but an engine that keeps a drafter's own embeddings would use them",
            "Drop embed_tokens.weight from the checkpoint.",
        ),
    }.get(trained, (NOTE, "right if they were frozen copies in training", ""))
    return Finding(
        "DRAFT_EMBEDDINGS",
        severity,
        f"{engine(s)} replaces the embeddings that {drafter(s)} ships by the target's: {why}",
        expected={"own": "its own embeddings", "target": "the target's embeddings"}.get(trained, ""),
        actual="the target's embeddings",
        source=place,
        remedy=remedy,
    )


def vocabulary_map(s: Situation) -> Outcome:
    """A reduced draft vocabulary has a map of the right length, and the release loads it."""
    facts = s.drafter
    if facts is None or not facts.tensors:
        return None
    vocabulary = facts.vocabulary
    rows = facts.tensor(*HEAD_NAMES)
    faults: list[tuple[str, str, str]] = []
    if vocabulary.d2t is not None and rows is not None and rows.shape and rows.shape[0] != vocabulary.d2t:
        faults.append((f"d2t has {vocabulary.d2t} entries for a head of {rows.shape[0]} rows", "equal lengths", "d2t"))
    if vocabulary.reduced and vocabulary.d2t is None:
        faults.append((f"it drafts from {vocabulary.size} tokens and has no map d2t", "d2t", "no map"))
    known = s.draft_class
    if vocabulary.reduced and known is not None and known.status == FITTED and known.lm_head and not known.vocab_map:
        faults.append((f"{engine(s)} loads no map for this class", "d2t loaded", "draft ids taken as target ids"))
    elif vocabulary.d2t is None and known is not None and known.lm_head.get("unmapped") == "error":
        faults.append((f"{engine(s)} raises for a head of this class without a map", "d2t", "no map"))
    encoded = vocabulary.encoding
    if known is not None and known.vocab_encoding and encoded and encoded != known.vocab_encoding:
        faults.append((f"its map holds {encoded} ids", f"{known.vocab_encoding} ids", f"{encoded} ids"))
    size = whole(s.draft_config.get("draft_vocab_size"))
    if size is not None and rows is not None and rows.shape and rows.shape[0] != size and head_case(s) == "own":
        faults.append((f"draft_vocab_size is {size}, its head has {rows.shape[0]} rows", str(size), str(rows.shape[0])))
    return tuple(
        Finding(
            "DRAFT_VOCABULARY",
            REFUSE,
            f"the draft vocabulary of {drafter(s)} does not fit: {fault}",
            expected=expected,
            actual=actual,
            source="tensor headers and config.json",
            remedy="Export the drafter again with the map and head of one vocabulary.",
        )
        for fault, expected, actual in faults
    )


RULES = (
    Rule(
        "DRAFT_HEAD",
        "The head is present, and the one trained",
        "A missing head is right or fatal depending on draft_vocab_size and the release: either the target's is "
        "borrowed, or the head stays random and the acceptance length is 1.0.",
        "https://github.com/sgl-project/sglang/issues/27829",
        ("R07",),
        head,
    ),
    Rule(
        "DRAFT_EMBEDDINGS",
        "The embeddings are those trained with",
        "SGLang replaces a drafter's embeddings by the target's; other engines keep what the file holds, be it random.",
        "https://github.com/lightseekorg/TorchSpec/issues/38",
        ("R09",),
        embeddings,
    ),
    Rule(
        "DRAFT_VOCABULARY",
        "The draft vocabulary has a map of the right length",
        "Draft ids taken as target ids are other tokens: nothing is accepted; a map of another length crashes.",
        "https://github.com/sgl-project/SpecForge/pull/76",
        ("R08",),
        vocabulary_map,
    ),
)
