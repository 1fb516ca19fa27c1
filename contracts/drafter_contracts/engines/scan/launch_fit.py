"""Fit what a release's own resolution of the speculative options did to the rules that the gate interprets."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.launch_rules import BlockRule, Flag, Source, SpeculativeRules, Triple
from drafter_contracts.engines.scan.launch_cases import BLOCK_KEYS, OTHER, REVISION, TARGET, for_all, triples
from drafter_contracts.serving.speculation import NAMES

Answer = dict[str, object]
Answers = dict[tuple[object, ...], Answer]

NOTHING = (None, None, None)
DESTS = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")


def triple_of(answer: Answer) -> tuple[object, ...] | None:
    """The three numbers of an answer; None where the release raised."""
    return None if "error" in answer else tuple(answer.get(name) for name in DESTS)


def place(answer: Answer) -> str:
    """Where the release raised."""
    found = answer.get("place")
    return msgspec.convert(found, Source).text() if found else ""


class SpeculativeFit:
    """Rules in the making from answers to `launch_cases`.

    Args:
        names: Algorithms, as the option takes them.
        flags: The option table by dest.
        answers: What the release did.
    """

    def __init__(self, names: tuple[str, ...], flags: dict[str, Flag], answers: Answers) -> None:
        self.names = names
        self.flags = flags
        self.answers = answers
        self.unfitted: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        for name in names:
            effective = self.algorithm_of(name)
            if effective and effective != name:
                self.aliases[name] = effective
        self.effective = tuple(dict.fromkeys(self.aliases.get(name, name) for name in names))
        self.own = tuple(name for name in names if name not in self.aliases)
        self.architectures = tuple(
            dict.fromkeys(str(key[2]) for key in answers if key[0] == "auto" and key[2] != OTHER)
        )

    def algorithm_of(self, name: str) -> str:
        """What a name becomes."""
        found = [
            str(answer["speculative_algorithm"])
            for key, answer in self.answers.items()
            if key[:2] == ("grid", name) and "error" not in answer
        ]
        return found[0] if found else ""

    def grid(self, name: str, triple: tuple[object, ...]) -> Answer:
        """The answer for a triple."""
        return self.answers["grid", name, triple]

    def chains(self) -> tuple[str, ...]:
        """Algorithms that draft a tree or chain by steps and topk."""

        def fits(name: str) -> bool:
            automatic = triple_of(self.grid(name, NOTHING))
            kept = triple_of(self.grid(name, (3, 4, 16)))
            # Where nothing can be left out, the release means to choose by itself and fails at it.
            chosen = None not in automatic if automatic is not None else "error" in self.grid(name, (None, None, 4))
            return kept == (3, 4, 16) and chosen

        return tuple(name for name in self.own if fits(name))

    def automatic(self, name: str) -> dict[str, Triple]:
        """Target architecture to automatic triple; "*" for all others."""
        found: dict[str, Triple] = {}
        if "error" in self.grid(name, NOTHING):
            return found
        other = triple_of(self.answers["auto", name, OTHER])
        if other is not None:
            found["*"] = Triple(*other)  # type: ignore[arg-type]
        for architecture in self.architectures:
            answer = self.answers["auto", name, architecture]
            triple = triple_of(answer)
            if triple is None:
                self.unfitted[f"architecture {architecture}"] = (
                    f"{answer['error']} at {place(answer)}: {answer['text']}"
                )
            elif triple != other:
                found[architecture] = Triple(*triple)  # type: ignore[arg-type]
        return found

    def bundled(self) -> tuple[tuple[str, ...], bool]:
        """Architectures that carry their drafter, and whether it is read at the target's revision."""
        found = [
            architecture
            for architecture in self.architectures
            if self.answers["bundled", architecture, None].get("speculative_draft_model_path") == TARGET
        ]
        revisions = {
            self.answers["bundled", architecture, None].get("speculative_draft_model_revision")
            for architecture in found
        }
        return tuple(found), revisions == {REVISION}

    def partial(self, name: str, kind: str = "grid") -> dict[str, str]:
        """Which partial triples raise ("grid": always, "paged": with pages)."""
        found: dict[str, str] = {}
        for triple in triples():
            given = [part for part, value in zip(NAMES, triple, strict=True) if value is not None]
            answer = self.answers[kind, name, triple]
            if len(given) < len(NAMES) and "error" in answer:
                found["+".join(given)] = str(answer["error"])
        return found

    def promotions(self) -> dict[str, dict[str, str]]:
        """Drafter classes that change the algorithm."""
        found: dict[str, dict[str, str]] = {}
        for architecture in self.architectures:
            for name in self.names:
                answer = self.answers["promoted", name, architecture]
                usual = self.answers["promoted", name, OTHER]
                if "error" in answer and "error" not in usual:
                    found.setdefault(architecture, {})[name] = f"!{answer['error']}"
                elif "error" not in answer and answer["speculative_algorithm"] != self.aliases.get(name, name):
                    found.setdefault(architecture, {})[name] = str(answer["speculative_algorithm"])
        return found

    def backends(self) -> list[tuple[str, str, str]]:
        """(option, backend, machine) of every backend that some machine accepts with topk 1."""
        found: dict[tuple[str, str], str] = {}
        for key, answer in self.answers.items():
            if key[0] == "backend" and key[4:] == (1, 1) and "error" not in answer:
                found.setdefault((str(key[1]), str(key[2])), str(key[3]))
        return [(dest, backend, machine) for (dest, backend), machine in found.items()]

    def pages(self) -> dict[str, int]:
        """Page sizes that backends force."""
        found: dict[str, int] = {}
        for dest, backend, machine in self.backends():
            size = self.answers["backend", dest, backend, machine, 1, 1].get("page_size")
            if isinstance(size, int) and size != 1:
                found[f"{dest}=={backend}"] = size
        return found

    def paged(self) -> tuple[tuple[str, ...] | None, tuple[str, ...], bool]:
        """(backends that topk above 1 needs with pages, backends that reject topk above 1, topk silently set to 1)."""
        needs: list[str] = []
        rejects: list[str] = []
        refused = lowered = False
        forced = self.pages()
        for dest, backend, machine in self.backends():
            plain = self.answers["backend", dest, backend, machine, 4, 1]
            pages = self.answers["backend", dest, backend, machine, 4, 64]
            unpaged = f"{dest}=={backend}" not in forced
            if "error" in plain and (unpaged or "topk = 1" in str(plain["text"])):
                rejects.append(backend)
            elif dest != "attention_backend":
                continue
            elif "error" in pages:
                refused = True
            elif pages.get(DESTS[1]) == 1:
                lowered = True
            else:
                needs.append(backend)
        return tuple(needs) if refused else None, tuple(dict.fromkeys(rejects)), lowered

    def expression(self, name: str, index: int, triple: tuple[object, ...]) -> str:
        """What a number is made of where it does not come from the launch: an integer, an option, or a quotient."""
        answer = triple_of(self.grid(name, triple))
        if answer is None or not isinstance(answer[index], int):
            return ""
        for key, moved in self.answers.items():
            if key[:2] == ("number", name) and key[4] == triple and key[3] == 7 and key[2] not in DESTS:
                dest = str(key[2])
                numbers = triple_of(moved)
                five = triple_of(self.answers["number", name, dest, 5, triple])
                if numbers and five and numbers[index] == 7 and five[index] == 5 and "block_size" not in dest:
                    return dest
        return str(answer[index])

    def forced(self, name: str) -> tuple[dict[str, str], dict[str, str]]:
        """(values that are forced, values where none is given) of an algorithm outside the chain."""
        fixed: dict[str, str] = {}
        defaults: dict[str, str] = {}
        for index, part in enumerate(NAMES):
            seen = {}
            for triple in triples():
                numbers = triple_of(self.grid(name, triple))
                if numbers is not None:
                    seen[triple] = numbers[index]
            if not seen:
                continue
            some = next(iter(seen))
            if len(set(seen.values())) == 1 and None not in seen.values():
                fixed[part] = self.expression(name, index, some)
            elif all(value == triple[index] for triple, value in seen.items() if triple[index] is not None):
                missing: dict[tuple[object, ...], object] = {
                    triple: value for triple, value in seen.items() if triple[index] is None
                }
                if any(value is not None for value in missing.values()):
                    defaults[part] = self._default(name, index, missing)
        return fixed, defaults

    def _default(self, name: str, index: int, missing: dict[tuple[object, ...], object]) -> str:
        if len(set(missing.values())) == 1:
            return self.expression(name, index, next(iter(missing)))
        quotient = all(
            numbers is not None and numbers[index] == numbers[2] // numbers[1]  # type: ignore[operator]
            for numbers in (triple_of(self.grid(name, triple)) for triple in missing)
        )
        return "draft_tokens//topk" if quotient and index == 0 else ""

    def block(self, name: str) -> BlockRule | None:
        """Where the draft tokens of a block drafter come from; None if they have nothing to do with a block."""
        unread = triple_of(self.answers["block", name, "none"])
        keys = [
            key
            for key in BLOCK_KEYS
            if self._block_tokens(name, key, 8) is not None
            and self._block_tokens(name, key, 8) != self._block_tokens(name, key, 11)
        ]
        if not keys or unread is None or not isinstance(unread[2], int):
            return None
        first = self._block_tokens(name, keys[0], 8)
        add = first - 8 if isinstance(first, int) else 0
        ordered = sorted(keys, key=lambda key: sum(self._wins(name, key, other, add) for other in keys), reverse=True)
        flag, clash = "", ""
        for key, answer in self.answers.items():
            if key[:2] == ("block flag", name) and key[3] is None and (triple_of(answer) or NOTHING)[2] == 8 + add:
                moved = self.answers["block flag config", name, key[2], None]
                if (triple_of(moved) or NOTHING)[2] == 8 + add:
                    flag = str(key[2])
                    clash = str(self.answers["block flag", name, flag, 5].get("error", ""))
        return BlockRule(
            flag=flag,
            keys=tuple(ordered),
            default=unread[2] - add,
            add=add,
            clash=clash,
            config_clash=str(self.answers["block tokens", name, keys[0], 5].get("error", "")),
        )

    def _block_tokens(self, name: str, key: str, size: int) -> object:
        numbers = triple_of(self.answers["block", name, key, size])
        return numbers[2] if numbers else None

    def _wins(self, name: str, key: str, other: str, add: int) -> bool:
        answer = self.answers.get(("block pair", name, key, other))
        return answer is not None and (triple_of(answer) or NOTHING)[2] == 8 + add

    def limits(self) -> tuple[tuple[str, str, str], ...]:
        """Refusals that need both speculation and the toggle."""
        found: dict[tuple[str, str, str], list[str]] = {}
        for key, answer in self.answers.items():
            if key[0] != "limit" or not key[1] or not key[2] or "error" not in answer:
                continue
            name, condition = str(key[1]), str(key[2])
            without = self.answers.get(("limit", "", condition), {})
            if "error" in without or "error" in self.answers["limit", name, ""]:
                continue
            effective = self.aliases.get(name, name)
            found.setdefault((condition.strip(), str(answer["error"]), place(answer)), []).append(effective)
        rows: dict[tuple[str, str, str], None] = dict.fromkeys(self.page_limits())
        for (condition, error, where), names in found.items():
            unique = sorted(set(names))
            if not for_all(condition) and unique != ["EAGLE3"]:
                unique = [n for n in unique if n != "EAGLE"] or unique
            who = f"algorithm=={unique[0]}" if len(unique) == 1 else f"algorithm in {'|'.join(unique)}"
            rows[f"{who} & {condition}", error, where] = None
        return tuple(rows)

    def page_limits(self) -> list[tuple[str, str, str]]:
        """Backends that algorithms outside the chain refuse with pages."""
        found: dict[tuple[str, str, str], list[str]] = {}
        chain = self.chains()
        for key, answer in self.answers.items():
            if key[0] != "pages" or key[3] != 64 or key[1] not in self.own or key[1] in chain:
                continue
            if "error" in answer and "error" not in self.answers[*key[:3], 1]:
                found.setdefault((str(key[1]), str(answer["error"]), place(answer)), []).append(str(key[2]))
        return [
            (f"algorithm=={name} & page_size>1 & attention_backend in {'|'.join(backends)}", error, where)
            for (name, error, where), backends in found.items()
        ]

    def overlap(self) -> str:
        """The overlap scheduler: "on", "off" or "env:NAME"."""

        def on(variable: str) -> bool:
            return self.answers["overlap", variable, 1].get("disable_overlap_schedule") is False

        if on(""):
            return "on"
        return "env:SGLANG_ENABLE_SPEC_V2" if on("SGLANG_ENABLE_SPEC_V2") else "off"

    def _partial_paged(self, algorithm: str) -> dict[str, str]:
        """Combinations of the three that raise only with pages."""
        plain = self.partial(algorithm)
        return {given: error for given, error in self.partial(algorithm, "paged").items() if given not in plain}

    def _forced_values(
        self, names: list[str]
    ) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]], dict[str, BlockRule]]:
        """What algorithms outside the chain force, what they fill in, and how they size blocks; by algorithm."""
        forced = {name: self.forced(name) for name in names}
        blocks = {name: block for name in names if (block := self.block(name)) is not None}
        for name in blocks:
            forced[name][1].pop("draft_tokens", None)
        fixed = {name: values for name, (values, _) in forced.items() if values}
        return fixed, {name: values for name, (_, values) in forced.items() if values}, blocks

    def rules(self, source: Source | None) -> SpeculativeRules:
        """The rules, unchecked."""
        chain = self.chains()
        autos = {name: self.automatic(name) for name in chain}
        eagle = next((name for name in ("EAGLE3", "EAGLE") if name in chain), "")
        auto = autos.get(eagle, {})
        plain = {name: table["*"] for name, table in autos.items() if set(table) == {"*"} and table != auto}
        bundled, bundled_revision = self.bundled()
        needs, rejects, lowered = self.paged()
        fixed, defaults, blocks = self._forced_values([name for name in self.own if name not in chain])
        lower = self.answers["lower",]
        given = self.answers["grid", eagle, (3, 4, 16)] if eagle else {}
        flag = self.flags["speculative_algorithm"]
        return SpeculativeRules(
            algorithms=self.names,
            open=flag.choices is None,
            upper=flag.choices is None and lower.get("speculative_algorithm") == "EAGLE3",
            aliases=self.aliases,
            auto=auto,
            partial=self.partial(eagle) if eagle else {},
            partial_paged=self._partial_paged(eagle) if eagle else {},
            topk1_tokens="S+1" if eagle and triple_of(self.grid(eagle, (3, 1, 16))) == (3, 1, 4) else "",
            fixed=fixed,
            bundled=bundled,
            topk_needs=needs,
            topk_rejects=rejects,
            overlap=self.overlap(),
            limits=self.limits(),
            source=source,
            chain=chain,
            auto_for=plain,
            promotions=self.promotions(),
            blocks=blocks,
            defaults=defaults,
            topk_paged_one=lowered,
            page_sizes=self.pages(),
            draft_revision=str(given.get("speculative_draft_model_revision") or ""),
            bundled_revision=bundled_revision,
            unfitted=self.unfitted,
        )
