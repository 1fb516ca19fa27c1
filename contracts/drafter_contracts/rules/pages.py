"""The rules' documentation, generated: `python -m drafter_contracts.rules.pages > docs/rules.md`."""

from __future__ import annotations

from drafter_contracts.rules import RULES

#: What the numbers of the catalogue stand for: kinds of failure distilled from public reports.
CATALOGUE = {
    "R01": "layer ids missing from the checkpoint, or other than those the engine uses",
    "R02": "a tap that this release cannot capture of this target",
    "R03": "fc's input width against taps times target width; number of taps supported",
    "R04": "what a layer number means is not declared",
    "R05": "ids that repeat or are negative",
    "R06": "another target than the drafter was trained for",
    "R07": "no head tensor, where none is shared",
    "R08": "reduced draft vocabulary without a map, or one of another length",
    "R09": "whose embeddings the drafter runs with",
    "R10": "class or format that the release does not know",
    "R11": "algorithm against the kind of drafter",
    "R12": "no draft path, and nothing bundled",
    "R13": "steps, topk and draft tokens: incomplete, inconsistent, or changed silently",
    "R14": "more drafted tokens than the trained block",
    "R15": "a number of drafted tokens copied between engines that count differently",
    "R16": "topk, page size and attention backend together",
    "R17": "the drafter's attention against the backend it inherits",
    "R18": "the drafter's quantisation or dtype, wrongly inherited",
    "R19": "bundled draft tensors missing from the checkpoint",
    "R20": "positions of the drafter against the context served",
    "R21": "RoPE used against RoPE trained with",
    "R22": "norms and flags of the drafter that the release drops",
    "R23": "tokenizers that differ",
    "R24": "target weights, basis, template or mode other than trained on",
    "R25": "parallelism or LoRA that does not go with speculation",
    "R26": "a combination of drafter, target class and release that is not supported",
    "R27": "hidden states recorded by another engine, with another norm, or at other layers than served",
    "R28": "tensors that nobody reads, or parameters that nothing fills",
    "R30": "more drafted tokens than a buffer holds",
}

_HEAD = """# Rules

Generated from the code (`python -m drafter_contracts.rules.pages`); a test keeps it current.

A rule is one function with one code. It either has nothing to decide in a launch, or it looked and found nothing
wrong, or it reports findings. A finding's severity is

* `refuse`: the launch would crash, or silently feed the drafter something that it was not trained on;
* `unknown`: something that decides is not known; the finding says what would settle it;
* `warn`: it runs, and is worse than it could be, or something was taken on word;
* `note`: worth saying, changes nothing.

The worst severity decides the verdict; `refuse` beats `unknown`. No rule that could decide at all means `unknown`.
A finding that launch options alone would remedy names them in its `flags`, each way a list of arguments, the first to
be preferred. `drafters resolve` tries them, and keeps what makes the whole verdict better.

The catalogue numbers (R01 ...) group the field failures that the rules answer; they are listed at the end.

| code | checks | catalogue |
|---|---|---|
"""


def markdown() -> str:
    """The whole page."""
    rows = [f"| [{r.code}](#{r.code.lower()}) | {r.title} | {', '.join(r.catalogue)} |" for r in RULES]
    pages = [
        f"## {r.code}\n\n{r.title}.\n\n{(r.check.__doc__ or '').strip()}\n\n"
        f"**Without it:** {r.what_goes_wrong}\n\n**Seen in:** <{r.reference}>\n\n"
        f"**Catalogue:** {', '.join(r.catalogue)}\n"
        for r in RULES
    ]
    numbers = "\n".join(f"| {number} | {text} |" for number, text in CATALOGUE.items())
    legend = f"## Catalogue of field failures\n\n| number | what goes wrong |\n|---|---|\n{numbers}\n"
    return _HEAD + "\n".join(rows) + "\n\n" + "\n".join(pages) + "\n" + legend


if __name__ == "__main__":
    import sys

    sys.stdout.write(markdown())
