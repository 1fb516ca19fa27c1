"""Split the text of `sh -c` into its commands: enough of the shell's grammar to find a launch in it.

`shlex` does not do: it forgets whether blanks stood before a redirection, so that "--tp 8 > log" and "8>log"
look the same.
"""

from __future__ import annotations

_SEPARATING = frozenset(";&|()\n")
_BLANK = frozenset(" \t\r")
#: Characters that a backslash keeps its meaning before, inside double quotes.
_ESCAPABLE = frozenset('"\\$`')


class _Splitter:
    """One pass over a shell text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.word: list[str] | None = None
        self.quoted = False
        self.skip = False
        self.parts: list[list[str]] = [[]]

    def add(self, piece: str) -> None:
        """Append to the word that is being read."""
        if self.word is None:
            self.word = []
        self.word.append(piece)

    def end_word(self) -> None:
        """The word is over."""
        if self.word is not None:
            if self.skip:
                self.skip = False
            else:
                self.parts[-1].append("".join(self.word))
        self.word, self.quoted = None, False

    def redirect(self) -> None:
        """`>`, `2>`, `>>`, `>&`, `<<<`: the next word is a file or a descriptor, not an argument."""
        if self.word is not None and not self.quoted and "".join(self.word).isdecimal():
            self.word = None
        self.end_word()
        while self.at < len(self.text) and self.text[self.at] in "<>&|":
            self.at += 1
        self.skip = True

    def single(self) -> None:
        """Inside single quotes."""
        end = self.text.index("'", self.at)
        self.add(self.text[self.at : end])
        self.at, self.quoted = end + 1, True

    def double(self) -> None:
        """Inside double quotes."""
        self.quoted = True
        self.add("")
        while (character := self.text[self.at]) != '"':
            self.at += 1
            if character == "\\":
                self.escape(keep=self.text[self.at] not in _ESCAPABLE)
            else:
                self.add(character)
        self.at += 1

    def escape(self, *, keep: bool) -> None:
        """After a backslash; `keep` leaves it in the word."""
        character = self.text[self.at]
        self.at += 1
        if character != "\n":
            self.add(f"\\{character}" if keep else character)
            self.quoted = True

    def run(self) -> list[list[str]]:
        """All commands. Raises IndexError or ValueError where a quote is open."""
        while self.at < len(self.text):
            character = self.text[self.at]
            if self.text.startswith("&>", self.at) or character in "<>":
                self.redirect()
                continue
            self.at += 1
            if character in _BLANK:
                self.end_word()
            elif character in _SEPARATING:
                self.end_word()
                self.parts.append([])
            elif character == "'":
                self.single()
            elif character == '"':
                self.double()
            elif character == "\\":
                self.escape(keep=False)
            elif character == "#" and self.word is None:
                self.at = self.text.find("\n", self.at) if "\n" in self.text[self.at :] else len(self.text)
            else:
                self.add(character)
        self.end_word()
        return [part for part in self.parts if part]


def commands(text: str) -> list[list[str]]:
    """The commands of a shell text, each as its words; redirections are left out.

    Variables are not expanded: a word that holds `$NAME` stays as written, because only the shell that will
    run the text knows its value. A text that cannot be split (an open quote) gives no commands.
    """
    try:
        return _Splitter(text).run()
    except (IndexError, ValueError):
        return []
