"""What a release makes of the speculative options: the interpreter of `SpeculativeRules`.

The scanner accepts rules only if this interpreter reproduces with them what the release's own code did on every
option set that was tried.
"""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.launch_rules import BlockRule, SpeculativeRules
from drafter_contracts.serving.conditions import holds
from drafter_contracts.serving.launch import Adjustment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

Numbers = tuple[int | None, int | None, int | None]

NAMES = ("steps", "topk", "draft_tokens")
#: How an adjustment names the same values.
WHAT = {"steps": "num_steps", "topk": "eagle_topk", "draft_tokens": "num_draft_tokens"}
_BACKENDS = ("attention_backend", "decode_attention_backend", "prefill_attention_backend")


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """The speculative part of a launch, and what must be known beside it.

    Attributes:
        algorithm: As written.
        triple: (steps, topk, draft tokens), None where not given.
        draft_path: Or "".
        draft_revision: Or "".
        target_path: Model path.
        target_revision: Or "".
        architecture: The target's, "" if not known.
        draft_architecture: The drafter's, "" if not known.
        draft_config: The drafter's config as the engine sees it; None if it cannot be read.
        values: All options by dest.
    """

    algorithm: str
    triple: Numbers = (None, None, None)
    draft_path: str = ""
    draft_revision: str = ""
    target_path: str = ""
    target_revision: str = ""
    architecture: str = ""
    draft_architecture: str = ""
    draft_config: dict[str, object] | None = None
    values: dict[str, object] = msgspec.field(default_factory=dict)


class Resolved:
    """What becomes of a request.

    Attributes:
        algorithm: Effective.
        known: Whether the release has it; None where plugins may add algorithms.
        values: "steps", "topk" and "draft_tokens" to the effective value.
        draft_path: Effective.
        draft_revision: Effective.
        adjustments: What changed.
        failure: Exception that the release raises, or "".
        failure_source: Where.
        unknown: What the profile cannot tell, or "".
    """

    def __init__(self, rules: SpeculativeRules, request: Request) -> None:
        self.rules = rules
        self.request = request
        self.source = rules.source.text() if rules.source else ""
        self.algorithm = request.algorithm
        self.known: bool | None = True
        self.values: dict[str, int | None] = dict(zip(NAMES, request.triple, strict=True))
        self.draft_path = request.draft_path
        self.draft_revision = request.draft_revision
        self.adjustments: list[Adjustment] = []
        self.failure = ""
        self.failure_source = ""
        self.unknown = ""

    @property
    def triple(self) -> Numbers:
        """(steps, topk, draft tokens)."""
        return self.values["steps"], self.values["topk"], self.values["draft_tokens"]

    def set(self, name: str, value: int | None, why: str) -> None:
        """Change one of the three, if it changes."""
        stated = self.values[name]
        if stated == value:
            return
        self.values[name] = value
        shown = "" if stated is None else str(stated)
        self.adjustments.append(Adjustment(WHAT[name], shown, str(value), why, self.source))

    def fail(self, error: str, source: str = "") -> None:
        """The release raises; the first exception is the one that is seen."""
        if not self.failure:
            self.failure, self.failure_source = error, source or self.source

    # the steps, in the releases' order ------------------------------------------------------------------------

    def run(self) -> Resolved:
        """All steps."""
        if self.draft_path and not self.draft_revision:
            self.draft_revision = self.rules.draft_revision
        self.rename()
        unfitted = self.rules.unfitted.get(self.algorithm) or self.rules.unfitted.get(
            f"architecture {self.request.architecture}"
        )
        if not self.known:
            if self.known is None:
                self.unknown = "the release accepts any name here, and this is none of its own: a plugin's algorithm"
            return self
        if unfitted:
            self.unknown = unfitted
            return self
        if self.request.values.get("speculative_adaptive"):
            self.unknown = "--speculative-adaptive chooses the steps while serving"
            return self
        self.limit()
        if self.algorithm in self.rules.chain:
            self.bundle()
            self.automatic()
            self.chain()
        else:
            self.force()
        return self

    def rename(self) -> None:
        """Upper case, aliases, and what the drafter's architecture turns the algorithm into."""
        rules, name = self.rules, self.request.algorithm
        name = name.upper() if rules.upper else name
        promoted = rules.promotions.get(self.request.draft_architecture, {}).get(name, "")
        if promoted.startswith("!"):
            self.fail(promoted[1:])
            promoted = ""
        self.algorithm = promoted or rules.aliases.get(name, name)
        if name not in rules.algorithms and self.algorithm not in rules.algorithms:
            self.known = None if rules.open else False
        if self.algorithm != self.request.algorithm:
            why = f"for a drafter of class {self.request.draft_architecture}" if promoted else "another name for it"
            self.adjustments.append(Adjustment("algorithm", self.request.algorithm, self.algorithm, why, self.source))

    def limit(self) -> None:
        """Refusals."""
        seen = {
            **self.request.values,
            "page_size": self.page_size(),
            "algorithm": self.algorithm,
            "speculative_draft_model_path": self.draft_path or None,
        }
        for condition, error, source in self.rules.limits:
            if holds(condition, seen):
                self.fail(error, source)
                return

    def bundle(self) -> None:
        """The target's own checkpoint as the drafter."""
        if self.draft_path or self.request.architecture not in self.rules.bundled:
            return
        self.draft_path = self.request.target_path
        if self.rules.bundled_revision:
            self.draft_revision = self.request.target_revision
        why = f"{self.request.architecture} carries its drafter in its own checkpoint"
        self.adjustments.append(Adjustment("draft_model_path", "", self.draft_path, why, self.source))

    def automatic(self) -> None:
        """The triple where none of the three is given; what a partial triple leads to."""
        known = "+".join(name for name in NAMES if self.values[name] is not None)
        paged = self.rules.partial_paged.get(known, "") if self.page_size() > 1 else ""
        if error := self.rules.partial.get(known) or paged:
            self.fail(error)
            return
        if known:
            return
        chosen = self.rules.auto_for.get(self.algorithm)
        where = "for this algorithm"
        if chosen is None:
            if not self.request.architecture and len(set(self.rules.auto.values())) > 1:
                self.unknown = "the automatic triple depends on the target's architecture, which is not known"
                return
            chosen = self.rules.auto.get(self.request.architecture) or self.rules.auto.get("*")
            where = f"for a target of class {self.request.architecture or 'any'}"
        if chosen is None:
            self.unknown = "the profile holds no automatic triple"
            return
        for name in NAMES:
            self.set(name, getattr(chosen, name), f"none of the three is given: the release's choice {where}")

    def chain(self) -> None:
        """Rules about topk."""
        if self.failure or self.unknown:
            return
        steps, topk, tokens = self.triple
        paged = self.page_size() > 1
        if topk is not None and topk > 1:
            backends = [self.request.values.get(name) for name in _BACKENDS]
            if any(backend in self.rules.topk_rejects for backend in backends):
                self.fail("ValueError")
            elif paged and self.rules.topk_paged_one:
                self.set("topk", 1, "page size above 1")
                topk = 1
            elif paged and self.rules.topk_needs is not None and backends[0] not in (None, *self.rules.topk_needs):
                self.fail("ValueError")
        if topk == 1 and self.rules.topk1_tokens == "S+1" and steps is not None and tokens != steps + 1:
            self.set("draft_tokens", steps + 1, "with topk 1 the draft is a chain: steps + 1 tokens, the root included")

    def page_size(self) -> int:
        """The page size that is in force, as far as the options tell."""
        return page_size(self.rules, self.request.values)

    def force(self) -> None:
        """Algorithms whose values are forced or filled in."""
        block = self.rules.blocks.get(self.algorithm)
        for kind, table in (("fixed", self.rules.fixed), ("default", self.rules.defaults)):
            values = table.get(self.algorithm, {})
            for name in sorted(values, key=lambda n: "//" in values[n]):
                if kind == "default" and self.values[name] is not None:
                    continue
                why = f"{self.algorithm} always uses this" if kind == "fixed" else "the release's default"
                self.set(name, self.evaluate(values[name]), why)
        if block is not None and not self.failure:
            self.block(block)

    def evaluate(self, expression: str) -> int | None:
        """An integer, an option's value, or one value divided by another."""
        if expression.isdecimal():
            return int(expression)
        left, divided, right = expression.partition("//")
        if divided:
            dividend, divisor = self.values[left], self.values[right]
            return dividend // divisor if dividend is not None and divisor else None
        value = self.request.values.get(expression)
        return value if isinstance(value, int) else None

    def block(self, rule: BlockRule) -> None:
        """Draft tokens of a block drafter."""
        tokens = self.values["draft_tokens"]
        stated = self.request.values.get(rule.flag) if rule.flag else None
        if isinstance(stated, int):
            if tokens is not None and tokens != stated + rule.add and rule.clash:
                self.fail(rule.clash)
                return
            self.set("draft_tokens", stated + rule.add, f"the block size of --{rule.flag.replace('_', '-')}")
            return
        size = configured_block(rule, self.request.draft_config)
        if tokens is not None:
            if size is not None and tokens != size + rule.add and rule.config_clash:
                self.fail(rule.config_clash)
            return
        if self.request.draft_config is None:
            self.unknown = "the block size is read from the drafter's config, which is not known"
        why = "the block size of the drafter's config" if size is not None else "the release's default block size"
        self.set("draft_tokens", (rule.default if size is None else size) + rule.add, why)


def page_size(rules: SpeculativeRules, values: Mapping[str, object]) -> int:
    """The page size that is in force, as far as the options tell: what an attention backend forces, else as given.

    Args:
        rules: The release's rules.
        values: All options by dest.
    """
    for condition, size in rules.page_sizes.items():
        if holds(condition, values):
            return size
    page = values.get("page_size")
    return page if isinstance(page, int) else 1


def configured_block(rule: BlockRule, config: dict[str, object] | None) -> int | None:
    """The block size that a drafter's config states, by the first key that is there."""
    for dotted in rule.keys:
        value: object = config
        for part in dotted.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def resolve(rules: SpeculativeRules, request: Request) -> Resolved:
    """What a release makes of the speculative options.

    Args:
        rules: The release's rules.
        request: The speculative part of a launch.
    """
    return Resolved(rules, request).run()
