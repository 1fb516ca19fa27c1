"""Split the text of `sh -c` into its commands: enough of the shell's grammar to find a launch in it.

`shlex` does not do: it forgets whether blanks stood before a redirection, so that "--tp 8 > log" and "8>log"
look the same, and it knows nothing of expansions, so that a word which may become any number of words looks like one.
"""

from __future__ import annotations

from drafter_contracts.serving.invocation import is_assignment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_SEPARATING = frozenset(";&|()\n")
_BLANK = frozenset(" \t\r")
#: Characters that a backslash keeps its meaning before, inside double quotes.
_ESCAPABLE = frozenset('"\\$`')
#: Parameters of one character.
_SPECIAL = frozenset("@*#?$!-0123456789")
#: Commands that may give any value to the variables they name, or to all.
_SETS_NAMED = frozenset(("for", "select", "read", "declare", "typeset", "local", "readonly", "unset", "mapfile"))
_SETS_ANY = frozenset(("source", ".", "eval"))
#: Words that stand before a command and are none; after them nothing is certain to be run.
KEYWORDS = frozenset(
    ("if", "then", "elif", "else", "while", "until", "do", "for", "select", "case", "{", "!", "function")
)


class OpenWord(str):
    """A word of a shell text that may become other words, or none: only the shell that runs the text can tell."""

    __slots__ = ()


class _Splitter:
    """One pass over a shell text."""

    def __init__(self, text: str, variables: Mapping[str, str]) -> None:
        self.text = text
        self.variables = dict(variables)
        self.at = 0
        self.word: list[str] | None = None
        self.quoted = False
        self.open = False
        self.single_word = False
        self.skip = False
        self.certain = True
        self.compound = False
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
                self.parts[-1].append(self.finished("".join(self.word)))
        self.word, self.quoted, self.open, self.single_word = None, False, False, False

    def finished(self, word: str) -> str:
        """The word, marked where it is open. What stays one word is not, as the value of an option or after "="."""
        if self.single_word and not self.open:
            before = self.parts[-1][-1:]
            named = word.startswith("-") and "$" not in word.partition("=")[0] and "`" not in word.partition("=")[0]
            value = bool(before) and before[0].startswith("-") and "=" not in before[0] and not word.startswith("-")
            self.open = not (named or value or is_assignment(word))
        return OpenWord(word) if self.open else word

    def end_part(self, operator: str) -> None:
        """A command is over: what it certainly sets, later commands see; what it may set is not known any more."""
        self.end_word()
        words = self.parts[-1]
        setting = words[1:] if words[:1] == ["export"] else words
        plain = all(is_assignment(word) for word in setting)
        if words:
            here = plain and self.certain and operator not in ("|", "&")  # those run it in a shell of its own
            self.note(words, setting if here else [])
            self.compound = self.compound or words[0] in KEYWORDS
        certain = operator in (";", "\n", "&") or (operator == "&&" and self.certain and (plain or words[0] == "cd"))
        self.certain = certain and not self.compound
        self.parts.append([])

    def note(self, words: list[str], setting: list[str]) -> None:
        """Variables after a command, of whose words `setting` are assignments that certainly happen."""
        if words[0] in _SETS_ANY:
            if words[-1].endswith("/activate"):
                self.variables.pop("PATH", None)
            else:
                self.variables.clear()
        named = any(word in _SETS_NAMED for word in words[:3])
        for word in words:
            name, equals, value = word.partition("=")
            if named or equals:
                self.variables.pop(name.removesuffix("+").partition("[")[0], None)
            if word in setting and not isinstance(word, OpenWord) and "$" not in value and "`" not in value:
                self.variables[name] = value

    def redirect(self) -> None:
        """`>`, `2>`, `>>`, `>&`, `<<<`: the next word is a file or a descriptor, not an argument."""
        if self.word is not None and not self.quoted and "".join(self.word).isdecimal():
            self.word = None
        self.end_word()
        start = self.at
        while self.at < len(self.text) and self.text[self.at] in "<>&|":
            self.at += 1
        operator = self.text[start : self.at]
        if operator == "<<":
            raise ValueError(operator)  # a here-document: its lines are no commands
        if self.text.startswith("(", self.at) and operator in ("<", ">"):
            self.at += 1
            self.substitute(operator + "(", ")")
            return
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
            elif character in "$`":
                self.expansion(character, quoted=True)
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

    def substitute(self, opened: str, closing: str) -> None:
        """What another command will print, up to its closing mark; stays as written."""
        depth, start = 1, self.at
        while depth:
            character = self.text[self.at]
            self.at += 2 if character == "\\" else 1
            if character == closing:
                depth -= 1
            elif character == opened[-1]:
                depth += 1
        self.add(opened + self.text[start : self.at])
        self.open = True

    def expansion(self, character: str, *, quoted: bool) -> None:
        """After `$` or a backquote."""
        rest = self.text[self.at : self.at + 1]
        if character == "`":
            self.at = self.text.index("`", self.at) + 1
            self.unresolved("`...`", quoted=quoted)
        elif rest == "(":
            was_open = self.open
            self.at += 1
            self.substitute("$(", ")")
            self.open = was_open or not quoted
            self.single_word = True
        elif rest == "{":
            end = self.text.index("}", self.at)
            name = self.text[self.at + 1 : end]
            self.at = end + 1
            self.variable(name, "${" + name + "}", quoted=quoted)
        elif rest and rest in _SPECIAL:
            self.at += 1
            self.unresolved("$" + rest, quoted=quoted and rest not in "@*")
        else:
            start = self.at
            while self.at < len(self.text) and (self.text[self.at].isalnum() or self.text[self.at] == "_"):
                self.at += 1
            name = self.text[start : self.at]
            if name:
                self.variable(name, "$" + name, quoted=quoted)
            else:
                self.unresolved("$", quoted=quoted)

    def variable(self, name: str, written: str, *, quoted: bool) -> None:
        """The value of a variable, if it is known; unquoted, its blanks separate words."""
        value = self.variables.get(name)
        if value is None:
            self.unresolved(written, quoted=quoted and "@" not in name and "*" not in name)
        elif quoted:
            self.add(value)
        else:
            pieces = value.split()
            if value[:1].isspace():
                self.end_word()
            for position, piece in enumerate(pieces):
                if position:
                    self.end_word()
                self.add(piece)
            if value[-1:].isspace():
                self.end_word()

    def unresolved(self, written: str, *, quoted: bool) -> None:
        """An expansion whose value is not known."""
        self.add(written)
        self.single_word = True
        self.open = self.open or not quoted

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
            elif character == "(" and self.word is not None and self.word[-1].endswith("="):
                self.substitute("(", ")")  # an array
            elif character in _SEPARATING:
                doubled = self.text.startswith(("&&", "||"), self.at - 1)
                self.at += doubled
                self.end_part(character * (1 + doubled))
            elif character == "#" and self.word is None:
                self.at = self.text.find("\n", self.at) if "\n" in self.text[self.at :] else len(self.text)
            else:
                self.character(character)
        self.end_word()
        return [part for part in self.parts if part]

    def character(self, character: str) -> None:
        """A character of a word, outside quotes."""
        if character == "'":
            self.single()
        elif character == '"':
            self.double()
        elif character == "\\":
            self.escape(keep=False)
        elif character in "$`":
            self.expansion(character, quoted=False)
        elif character == "~" and self.word is None and "HOME" in self.variables:
            follows = self.text[self.at : self.at + 1]
            self.add(self.variables["HOME"] if follows in ("", "/") or follows in _BLANK | _SEPARATING else character)
        else:
            self.open = self.open or (
                character == "{" and self.text[self.at : self.at + 1] not in (" ", "\t", "\n", "")
            )
            self.add(character)


def commands(text: str, variables: Mapping[str, str] | None = None) -> list[list[str]]:
    """The commands of a shell text, each as its words; redirections are left out.

    Args:
        text: What the shell is given.
        variables: What is known of its variables, beside those that the text itself sets.

    Returns:
        The commands. Known variables are expanded. What only the shell that will run the text can tell stays as
        written (`$NAME`, `$(command)`), and is an `OpenWord` where it may become other words than the one. A text
        that cannot be split (an open quote, a here-document) gives no commands.
    """
    try:
        return _Splitter(text, variables or {}).run()
    except (IndexError, ValueError):
        return []
