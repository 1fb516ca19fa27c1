"""The completion script of each shell, made from the commands' own data.

A script is static: a key press starts no interpreter, opens no connection and makes no database. Therefore it offers
commands, options, their fixed values and files, and never the names of stored drafters.
"""

from __future__ import annotations

from drafter_cli.completion.words import TOP, Choice, choices, first_words, names_a_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from drafter_cli.commandline import Option


def bash() -> str:
    """For bash 3.2 and later."""
    return _BASH.format(
        firsts=_words([*(name for name, _ in first_words()), *(name for name, _ in TOP)]),
        seconds=_cases(_seconds(), lambda words: f"offer={_words(words)}", pad=6),
        values=_value_cases(lambda values: f"offer={_words(values)}", "offer=@files", "offer=@nothing"),
        options=_cases(
            {one.command.name: [o.name for o in one.options] for one in choices()},
            lambda words: f"offer={_words(words)}",
            pad=6,
        ),
        files=_pattern([one.command.name for one in choices() if one.files]),
        launches=_pattern([one.command.name for one in choices() if one.command.launch]),
    )


def zsh() -> str:
    """For zsh 5 and later, as a `#compdef` function."""
    described = {one.command.name: [f"{option.name}:{option.help}" for option in one.options] for one in choices()}
    groups: dict[str, list[str]] = {}
    for one in choices():
        if one.second:
            groups.setdefault(one.first, []).append(f"{one.second}:{one.command.summary}")
    return _ZSH.format(
        firsts=_zsh_list([f"{name}:{what}" for name, what in (*first_words(), *TOP)]),
        groups=_cases(groups, lambda entries: f"offer={_zsh_list(entries)}", pad=6),
        values=_value_cases(lambda values: f"offer={_zsh_list(values)}", "_files; return", "return 1"),
        options=_cases(described, lambda entries: f"offer={_zsh_list(entries)}", pad=6),
        files=_pattern([one.command.name for one in choices() if one.files]),
        launches=_pattern([one.command.name for one in choices() if one.command.launch]),
    )


def fish() -> str:
    """For fish 3 and later."""
    lines = [_FISH.rstrip("\n")]
    for name, what in first_words():
        lines.append(f"complete -c drafters -f -n __drafters_first -a {_quote(name)} -d {_quote(what)}")
    lines.append("complete -c drafters -f -n __drafters_first -a help -d 'show the help of a command'")
    lines.append("complete -c drafters -f -n __drafters_first -l version -d 'print the version'")
    for one in choices():
        at = _quote(f"__drafters_at {one.command.name}")
        if one.second:
            inner = f"complete -c drafters -f -n {_quote(f'__drafters_only {one.first}')}"
            lines.append(f"{inner} -a {_quote(one.second)} -d {_quote(one.command.summary)}")
        elif not one.files and not one.command.launch:
            lines.append(f"complete -c drafters -f -n {at}")
        if one.files or one.command.launch:
            lines.append(f"complete -c drafters -F -n {at}")
        lines += [f"complete -c drafters -n {at} {_fish_option(option)}" for option in one.options]
    return "\n".join(lines) + "\n"


SHELLS: dict[str, Callable[[], str]] = {"bash": bash, "zsh": zsh, "fish": fish}


def _fish_option(option: Option) -> str:
    parts = [f"-l {option.name.removeprefix('--')}"]
    if option.short:
        parts.append(f"-s {option.short.removeprefix('-')}")
    if option.metavar:
        parts.append("-r -F" if names_a_path(option.metavar) and not option.choices else "-x")
    if option.choices:
        parts.append(f"-a {_quote(' '.join(option.choices))}")
    return " ".join([*parts, f"-d {_quote(option.help)}"])


def _seconds() -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {"help": [name for name, _ in first_words()]}
    for one in choices():
        if one.second:
            groups.setdefault(one.first, []).append(one.second)
    return groups


def _value_cases(fixed: Callable[[list[str]], str], files: str, nothing: str) -> str:
    """Cases of "COMMAND OPTION" for every option that takes a value."""
    by_action: dict[str, list[str]] = {}
    for one in choices():
        for option in one.options:
            if option.metavar:
                by_action.setdefault(_action(option, fixed, files, nothing), []).extend(_spellings(one, option))
    return "\n".join(f"    {_pattern(places)}) {action} ;;" for action, places in by_action.items())


def _action(option: Option, fixed: Callable[[list[str]], str], files: str, nothing: str) -> str:
    if option.choices:
        return fixed(list(option.choices))
    return files if names_a_path(option.metavar) else nothing


def _spellings(one: Choice, option: Option) -> list[str]:
    return [f"{one.command.name} {name}" for name in (option.name, option.short) if name]


def _cases(table: dict[str, list[str]], action: Callable[[list[str]], str], *, pad: int) -> str:
    return "\n".join(f"{'':{pad}}{_pattern([name])}) {action(entries)} ;;" for name, entries in table.items())


def _pattern(names: list[str]) -> str:
    return " | ".join(f'"{name}"' for name in names) or '""'


def _words(words: list[str]) -> str:
    return _quote(" ".join(words))


def _zsh_list(entries: list[str]) -> str:
    """A zsh array; a colon inside a name would end it, inside a description it does no harm."""
    return "(" + " ".join(_quote(entry) for entry in entries) + ")"


def _quote(text: str) -> str:
    """Quoted for a POSIX shell, zsh and fish alike: none of the texts holds a backslash."""
    return "'" + text.replace("'", "'\\''") + "'"


_BASH = """\
# bash completion of drafters; made by `drafters completion bash`
_drafters() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} offer='' command at
  COMPREPLY=()
  # bash cuts --option=value into three words
  if [[ $word == '=' ]]; then word=''
  elif [[ $before == '=' ]]; then before=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  if (( COMP_CWORD == 1 )); then
    COMPREPLY=($(compgen -W {firsts} -- "$word"))
    return
  fi
  command=${{COMP_WORDS[1]}}
  case $command in
{seconds}
  esac
  if [[ -n $offer ]]; then
    if (( COMP_CWORD == 2 )); then
      COMPREPLY=($(compgen -W "$offer" -- "$word"))
      return
    fi
    command="$command ${{COMP_WORDS[2]}}"
    offer=''
  fi
  for (( at = 1; at < COMP_CWORD; at++ )); do
    if [[ ${{COMP_WORDS[at]}} == -- ]]; then  # somebody else's command line
      case $command in
        {launches}) offer=@files ;;
        *) return ;;
      esac
    fi
  done
  [[ -n $offer ]] || case "$command $before" in
{values}
  esac
  if [[ -z $offer && $word == -* ]]; then
    case $command in
{options}
    esac
  elif [[ -z $offer ]]; then
    case $command in
      "completion") offer='bash zsh fish' ;;
      {files}) offer=@files ;;
    esac
  fi
  case $offer in
    '' | @nothing) ;;
    @files)
      compopt -o filenames 2>/dev/null
      while IFS= read -r at; do COMPREPLY+=("$at"); done < <(compgen -f -- "$word")
      ;;
    *) COMPREPLY=($(compgen -W "$offer" -- "$word")) ;;
  esac
}}
complete -F _drafters drafters
"""

_ZSH = """\
#compdef drafters
# zsh completion of drafters; made by `drafters completion zsh`
_drafters() {{
  local command before
  local -a offer
  if (( CURRENT == 2 )); then
    offer={firsts}
    _describe -t commands command offer
    return
  fi
  command=$words[2]
  case $command in
{groups}
  esac
  if (( $#offer )); then
    if (( CURRENT == 3 )); then
      _describe -t commands command offer
      return
    fi
    command="$command $words[3]"
    offer=()
  fi
  if (( ${{words[(I)--]}} > 0 && ${{words[(I)--]}} < CURRENT )); then  # somebody else's command line
    case $command in
      {launches}) _files ;;
    esac
    return
  fi
  before=$words[CURRENT-1]
  if [[ $PREFIX == --*=* ]]; then
    before=${{PREFIX%%=*}}
    compset -P '*='
  fi
  case "$command $before" in
{values}
  esac
  if (( $#offer )); then
    _describe -t values value offer
    return
  fi
  if [[ $PREFIX == -* ]]; then
    case $command in
{options}
    esac
    _describe -t options option offer
    return
  fi
  case $command in
    "completion") offer=(bash zsh fish); _describe -t shells shell offer ;;
    {files}) _files ;;
  esac
}}
if [ "$funcstack[1]" = _drafters ]; then
  _drafters "$@"
else
  compdef _drafters drafters
fi
"""

_FISH = """\
# fish completion of drafters; made by `drafters completion fish`
function __drafters_first
    set -l words (commandline -opc)
    test (count $words) -eq 1
end
function __drafters_only
    set -l words (commandline -opc)
    test (count $words) -eq 2; and test "$words[2]" = "$argv[1]"
end
function __drafters_at
    set -l words (commandline -opc)
    set -l last (math (count $argv) + 1)
    test (count $words) -ge $last; and test "$words[2..$last]" = "$argv"
end
complete -c drafters -f -n '__drafters_at completion' -a 'bash zsh fish'
"""
