# Guards every launch of SGLang from this shell; made by `drafters hook shell`. To be sourced by bash, zsh or another
# POSIX shell. `drafters_unhook` takes it back. What it catches, what it cannot, and how: docs/hooks.md.

# Sourced again, it begins anew.
[ -z "${_drafters_shims-}" ] || ! command -v drafters_unhook >/dev/null || drafters_unhook

# PATH without stand-ins, in $_drafters_path.
_drafters_plain() {
  _drafters_path=
  _drafters_rest=${PATH-}:
  while [ -n "$_drafters_rest" ]; do
    case ${_drafters_rest%%:*} in
      */drafters-shims-*) ;;
      *) _drafters_path=$_drafters_path:${_drafters_rest%%:*} ;;
    esac
    _drafters_rest=${_drafters_rest#*:}
  done
  _drafters_path=${_drafters_path#:}
}

# Which of these programs are on PATH: names in $_drafters_names, a digit for each in $_drafters_bits.
_drafters_present() {
  _drafters_names=
  _drafters_bits=
  for _drafters_one; do
    _drafters_rest=$_drafters_path:
    _drafters_bit=0
    while [ -n "$_drafters_rest" ]; do
      _drafters_place=${_drafters_rest%%:*}
      _drafters_place=${_drafters_place:-.}/$_drafters_one
      if [ -f "$_drafters_place" ] && [ -x "$_drafters_place" ]; then
        _drafters_names="$_drafters_names $_drafters_one"
        _drafters_bit=1
        break
      fi
      _drafters_rest=${_drafters_rest#*:}
    done
    _drafters_bits=$_drafters_bits$_drafters_bit
  done
}

# A program of the system, whatever has become of PATH.
_drafters_tool() (
  PATH=${PATH-}:/usr/bin:/bin
  exec "$@"
)

# Put the stand-ins of what is on PATH in front of it.
_drafters_front() {
  _drafters_plain
  _drafters_present @NAMES@
  _drafters_place=$_drafters_base/drafters-shims-@DIGEST@-$_drafters_bits
  [ -x "$_drafters_place/drafters_launch" ] || _drafters_make "$_drafters_place" || return 1
  _drafters_shims=$_drafters_place
  PATH=$_drafters_shims:$_drafters_path
  export PATH
}

# Write the stand-ins ($1: where): whole or not at all.
_drafters_make() {
  _drafters_new=$1.new.$$
  (umask 077 && _drafters_tool mkdir -p "$_drafters_new") || return 1
  _drafters_tool cat >"$_drafters_new/drafters_launch" <<'DRAFTERS_STAND_IN' || return 1
@STAND_IN@
DRAFTERS_STAND_IN
  _drafters_tool chmod 755 "$_drafters_new/drafters_launch" || return 1
  _drafters_rest="$_drafters_names "
  while [ -n "${_drafters_rest# }" ]; do
    _drafters_rest=${_drafters_rest# }
    _drafters_tool ln -sf drafters_launch "$_drafters_new/${_drafters_rest%% *}" || return 1
    _drafters_rest=${_drafters_rest#* }
  done
  "$_drafters_new/drafters_launch" --self-test || return 1
  _drafters_tool mv "$_drafters_new" "$1" 2>/dev/null || [ -x "$1/drafters_launch" ] || return 1
  # Where another shell was first, ours came to lie inside.
  [ ! -d "$1/${_drafters_new##*/}" ] || _drafters_tool rm -rf "${1:?}/${_drafters_new##*/}"
}

# A script ends here after a refusal, with the guard's exit code.
_drafters_end() {
  [ -z "$_drafters_debug" ] || trap - DEBUG
  _drafters_one=
  [ ! -r "$_drafters_base/ended.$$" ] || IFS= read -r _drafters_one <"$_drafters_base/ended.$$" || :
  _drafters_tool rm -f "$_drafters_base/ended.$$"
  exit "${_drafters_one:-3}"
}

# The traps of this shell, in $_drafters_list; a subshell would not see them everywhere.
_drafters_listed() {
  _drafters_list=
  [ -w "$_drafters_base" ] || return 0
  { trap; } >"$_drafters_base/traps.$$"
  _drafters_list=$(_drafters_tool cat "$_drafters_base/traps.$$")
  _drafters_tool rm -f "$_drafters_base/traps.$$"
}

# Wait until a launch that was just sent to the background is started or refused.
_drafters_settle() {
  _drafters_last=${!-}
  _drafters_tries=0
  [ -r "/proc/$$/cmdline" ] || return 0
  _drafters_one=$(_drafters_tool tr '\0' ' ' <"/proc/$$/cmdline")
  while [ -n "$_drafters_last" ]; do
    _drafters_rest=$( (_drafters_tool tr '\0' ' ' <"/proc/$_drafters_last/cmdline") 2>/dev/null) || break
    case $_drafters_rest in
      */drafters-shims-*) ;;
      "$_drafters_one") # not yet, or a part of this script
        [ "$_drafters_tries" -lt 5 ] || break
        _drafters_tries=$((_drafters_tries + 1))
        ;;
      *) break ;;
    esac
    _drafters_tool sleep 0.02
  done
}

# Before a command of bash or zsh ($1: its text; then this shell's own arguments): programs with a slash in their name
# are not looked for on PATH. For this one command they become functions.
_drafters_look() {
  _drafters_looked=1
  _drafters_text=$1
  _drafters_keyword=
  _drafters_paths=
  shift
  [ -x "$_drafters_shims/drafters_launch" ] || _drafters_front || : # somebody may have cleared the cache
  case ${SHELLOPTS-} in *posix*) return 0 ;; esac
  while [ -n "$_drafters_text" ]; do
    _drafters_word=${_drafters_text%%[[:space:]]*}
    _drafters_text=${_drafters_text#"$_drafters_word"}
    _drafters_text=${_drafters_text#?}
    case $_drafters_word in
      exec | command | builtin) _drafters_keyword=$_drafters_word ;;
      sglang.* | *launch_server* | serve) return 0 ;;
      PATH=*) _drafters_paths=1 ;;
      '' | -* | *['()`;|&<>\=?#!*']* | *++* | *@[A-Za-z]* | *'$['* | '~'[!/]*) ;;
      *'{'*'{'* | *'}'*'{'*) ;;
      *\"*\"*\"* | *\'*\'*\'*) ;;
      *\"*\"* | *\'*\'*) _drafters_expand "$_drafters_word" "$@" ;;
      *\"* | *\'*) ;;
      *[/~\$]*) _drafters_expand "$_drafters_word" "$@" ;;
      *)
        # it is looked for on another PATH; exec would end an interactive shell
        case "$_drafters_paths,$_drafters_interactive$_drafters_keyword @NAMES@ " in
          1,*" $_drafters_word "* | ,1exec*" $_drafters_word "*) _drafters_define "$_drafters_word" ;;
        esac
        ;;
    esac
  done
}

# What a word of a command ($1) is, by the variables of this shell and its arguments ($2...); it has no side effects.
_drafters_expand() {
  _drafters_word=$1
  shift
  case $- in
    *u*)
      set +u
      eval "set -- $_drafters_word"
      set -u
      ;;
    *) eval "set -- $_drafters_word" ;;
  esac
  for _drafters_one; do
    case $_drafters_one in
      */drafters-shims-* | *[!A-Za-z0-9_./+~@%,:-]*) ;;
      */*)
        case " @NAMES@ " in
          *" ${_drafters_one##*/} "*) _drafters_define "$_drafters_one" ;;
        esac
        ;;
    esac
  done
}

_drafters_define() {
  _drafters_level=${BASHPID-}${ZSH_SUBSHELL-}
  eval "function $1 { _drafters_fly '$_drafters_level' '' '$1' \"\$@\"; }"
  _drafters_flown="$_drafters_flown $1"
  [ -n "$_drafters_keyword" ] || return 0
  eval "function $_drafters_keyword { _drafters_fly '$_drafters_level' '$_drafters_keyword' \"\$@\"; }"
  _drafters_flown="$_drafters_flown $_drafters_keyword"
}

# Run such a command ($1: in which process it was read; $2: exec or the like). A process of its own becomes it.
_drafters_fly() {
  _drafters_level=$1
  _drafters_keyword=$2
  shift 2
  if [ -n "$_drafters_keyword" ]; then
    unset -f "$_drafters_keyword" 2>/dev/null || :
    case ${1-} in
      -*[vV]*)
        "$_drafters_keyword" "$@"
        return
        ;;
      -a) shift 2 ;;
      -*) shift ;;
    esac
  fi
  [ "$_drafters_keyword" != exec ] || [ -n "$_drafters_interactive" ] || _drafters_level=
  if [ "$_drafters_level" = "${BASHPID-}${ZSH_SUBSHELL-}" ] || [ -n "$_drafters_interactive$_drafters_keyword" ]; then
    if [ "$_drafters_keyword" != exec ] || [ -n "$_drafters_interactive" ]; then
      "$_drafters_shims/drafters_launch" "$@"
      return
    fi
  fi
  exec "$_drafters_shims/drafters_launch" "$@"
}

# After that command they are no functions any more.
_drafters_land() {
  while [ -n "${_drafters_flown# }" ]; do
    _drafters_flown=${_drafters_flown# }
    unset -f "${_drafters_flown%% *}" 2>/dev/null || :
    case $_drafters_flown in
      *' '*) _drafters_flown=${_drafters_flown#* } ;;
      *) _drafters_flown= ;;
    esac
  done
  _drafters_flown=
}

drafters_unhook() {
  [ -z "$_drafters_debug" ] || _drafters_land
  _drafters_debug= # with that, the trap goes by itself
  _drafters_plain
  PATH=$_drafters_path
  _drafters_listed
  case $_drafters_list in *_drafters_end*) trap - VTALRM ;; esac
  case $_drafters_list in *_drafters_settle*EXIT*) trap - EXIT ;; esac
  [ -z "${ZSH_VERSION-}" ] || eval 'zshexit_functions=(${zshexit_functions:#_drafters_settle})'
  [ -z "$_drafters_traced" ] || set +T
  if [ -n "$_drafters_traps" ]; then
    _DRAFTERS_HOOK=${_DRAFTERS_HOOK%"$_drafters_self"}
    _DRAFTERS_HOOK=${_DRAFTERS_HOOK% }
    [ -n "$_DRAFTERS_HOOK" ] || unset _DRAFTERS_HOOK
  fi
  unset -f _drafters_plain _drafters_tool _drafters_present _drafters_front _drafters_make _drafters_end _drafters_settle
  unset -f _drafters_look _drafters_expand _drafters_define _drafters_fly _drafters_land _drafters_hook
  unset -f _drafters_traps _drafters_watch _drafters_listed _drafters_before drafters_unhook
  unset _drafters_base _drafters_bit _drafters_bits _drafters_busy _drafters_debug _drafters_flown
  unset _drafters_interactive _drafters_keyword _drafters_last _drafters_level _drafters_list _drafters_looked _drafters_names
  unset _drafters_new _drafters_one _drafters_path _drafters_paths _drafters_place _drafters_rest _drafters_self
  unset _drafters_shims _drafters_text _drafters_traced _drafters_traps _drafters_tries _drafters_word
}

# A script: who is ended by a refusal, and how.
_drafters_traps() {
  _drafters_one=
  if [ -r "/proc/$$/stat" ]; then
    IFS= read -r _drafters_one <"/proc/$$/stat" || :
    _drafters_one=${_drafters_one##*") "}
    _drafters_tries=0
    while [ "$_drafters_tries" -lt 19 ]; do
      _drafters_one=${_drafters_one#* }
      _drafters_tries=$((_drafters_tries + 1))
    done
    _drafters_one=${_drafters_one%% *}
  fi
  _drafters_self=$$:$_drafters_one
  _DRAFTERS_HOOK="${_DRAFTERS_HOOK:+$_DRAFTERS_HOOK }$_drafters_self"
  export _DRAFTERS_HOOK
  trap _drafters_end VTALRM
  _drafters_traps=1
  if [ -n "${ZSH_VERSION-}" ]; then
    eval 'typeset -ga zshexit_functions; zshexit_functions+=(_drafters_settle)'
  else
    _drafters_listed
    case $_drafters_list in *EXIT*) ;; *) trap _drafters_settle EXIT ;; esac
  fi
}

# Before a command that may be something to look at ($1: its text; then this shell's own arguments). The subshells that it
# needs itself are not looked at: each would begin again.
_drafters_before() {
  [ "${_drafters_busy:-${BASHPID-}${ZSH_SUBSHELL-}}" = "${BASHPID-}${ZSH_SUBSHELL-}" ] || return 0
  _drafters_busy=${BASHPID-}${ZSH_SUBSHELL-}
  [ -z "$_drafters_flown" ] || _drafters_land
  if [ -n "$_drafters_looked" ]; then
    [ "${!-}" = "$_drafters_last" ] || _drafters_settle
    _drafters_looked=
  fi
  case ${PATH-} in '' | "$_drafters_shims":*) ;; *) _drafters_front || : ;; esac
  case $1 in
    *_drafters_*) ;;
    *sglang* | *launch_server* | [\"\$]* | "exec "[\"\$]* | "command "[\"\$]* | [A-Z]*=*" "[\"\$]*) _drafters_look "$@" ;;
    *[\&\|!]" "[\"\$]* | *[\&\|!]" "[A-Z]*=*" "[\"\$]*) _drafters_look "$@" ;; # zsh shows all of a list or a pipeline
  esac
  _drafters_busy=
}

# bash and zsh: look at each command before it runs, unless somebody else does. What is run each time is short for speed.
_drafters_watch() {
  if [ -n "${BASH_VERSION-}" ] && [ -z "$(trap -p DEBUG)" ]; then
    _drafters_debug=1
    trap '[[ ${PATH-} == "${_drafters_shims-}:"* && -z ${_drafters_flown-}${_drafters_looked-}${_drafters_busy-} &&
      $BASH_COMMAND != @(*sglang*|*launch_server*|[\"\$]*|exec\ [\"\$]*|command\ [\"\$]*|[A-Z]*=*\ [\"\$]*) ]] ||
      if [[ ${_drafters_debug-} ]]; then _drafters_before "$BASH_COMMAND" "$@"; else trap - DEBUG; fi' DEBUG
    case $- in
      *T*) ;;
      *) [ -n "$_drafters_interactive" ] || { set -T && _drafters_traced=1; } ;;
    esac
  elif [ -n "${ZSH_VERSION-}" ] && ! typeset -f TRAPDEBUG >/dev/null; then
    _drafters_debug=1
    trap '[[ ${PATH-} == "${_drafters_shims-}:"* && -z ${_drafters_flown-}${_drafters_looked-}${_drafters_busy-} &&
      $ZSH_DEBUG_CMD != (*sglang*|*launch_server*|[\"\$]*|exec\ [\"\$]*|command\ [\"\$]*|[A-Z]*=*\ [\"\$]*|\
*[\&\|!]\ [\"\$]*|*[\&\|!]\ [A-Z]*=*\ [\"\$]*) ]] ||
      if [[ -n ${_drafters_debug-} ]]; then _drafters_before "$ZSH_DEBUG_CMD" "$@"; else trap - DEBUG; fi' DEBUG
  fi
}

_drafters_hook() {
  _drafters_base=${DRAFTERS_CACHE:-${XDG_CACHE_HOME:-${HOME-}/.cache}/drafter-registry}/shell-hook
  _drafters_busy= _drafters_debug= _drafters_flown= _drafters_looked= _drafters_traced= _drafters_traps=
  _drafters_keyword= _drafters_last=${!-}
  case $- in *i*) _drafters_interactive=1 ;; *) _drafters_interactive= ;; esac
  if ! _drafters_front; then
    printf 'drafters hook: %s cannot be written or executed from; set DRAFTERS_CACHE\n' "$_drafters_base" >&2
    drafters_unhook
    case ${DRAFTERS_GUARD-} in warn | off) return 0 ;; esac
    case $- in *i*) return 2 ;; *) exit 2 ;; esac
  fi
  [ -n "$_drafters_interactive" ] || _drafters_traps
  _drafters_watch
}

_drafters_hook
