"""The rules' documentation, generated: `python -m drafter_contracts.rules.pages > docs/rules.md`."""

from __future__ import annotations

from drafter_contracts.rules import RULES

_HEAD = """# Rules

Generated from the code (`python -m drafter_contracts.rules.pages`); a test keeps it current.

A rule is one function with one code. It either has nothing to decide in a launch, or it looked and found nothing
wrong, or it reports findings. A finding's severity is

* `refuse`: the launch would crash, or silently feed the drafter something that it was not trained on;
* `unknown`: something that decides is not known; the finding says what would settle it;
* `warn`: it runs, and is worse than it could be, or something was taken on word;
* `note`: worth saying, changes nothing.

The worst severity decides the verdict; `refuse` beats `unknown`. No rule that could decide at all means `unknown`.
The catalogue numbers (R01 ...) group the field failures that the rules answer.

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
    return _HEAD + "\n".join(rows) + "\n\n" + "\n".join(pages)


if __name__ == "__main__":
    import sys

    sys.stdout.write(markdown())
