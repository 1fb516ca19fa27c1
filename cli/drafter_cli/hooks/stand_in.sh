#!/bin/sh
# Stands before a program of the same name on PATH; made by `drafters hook shell`. A launch of SGLang is judged by
# `drafters guard` and then becomes that program, or is not started. Everything else becomes it at once.
# As `drafters_launch COMMAND...` it does the same with a command of any name.
set -u
drafters=@DRAFTERS@
here=${0%/*}
name=${0##*/}
owners=${_DRAFTERS_HOOK-}

say() {
  printf 'drafters hook: %s\n' "$1" >&2
}

# PATH without stand-ins, in $clean.
clean=
rest=${PATH-}:
while [ -n "$rest" ]; do
  case ${rest%%:*} in
    */drafters-shims-*) ;;
    *) clean=$clean:${rest%%:*} ;;
  esac
  rest=${rest#*:}
done
clean=${clean#:}

# Whether a command's words start the engine.
is_launch() {
  before=
  for word; do
    case $word in
      sglang.launch_server) case $before in -*m | --module) return 0 ;; esac ;;
      -*msglang.launch_server | --module=sglang.launch_server) return 0 ;;
      launch_server.py | */launch_server.py) return 0 ;;
      serve) case $before in sglang | */sglang | sglang.cli | sglang.cli.main | -msglang.cli*) return 0 ;; esac ;;
    esac
    before=$word
  done
  return 1
}

# Exit code of the guard for a command: 0 if it may start.
judge() {
  set -- -- "$@"
  [ -z "${DRAFTERS_DRAFTER-}" ] || set -- "$DRAFTERS_DRAFTER" "$@"
  [ -z "${DRAFTERS_ENGINE-}" ] || set -- --engine "$DRAFTERS_ENGINE" "$@"
  [ -z "${DRAFTERS_TARGET-}" ] || set -- --target "$DRAFTERS_TARGET" "$@"
  [ -z "${DRAFTERS_MANIFEST-}" ] || set -- --manifest "$DRAFTERS_MANIFEST" "$@"
  [ -z "${DRAFTERS_OUTPUT_IDS-}" ] || set -- --output-ids "$DRAFTERS_OUTPUT_IDS" "$@"
  [ -z "${DRAFTERS_LOCK-}" ] || set -- "--locked=$DRAFTERS_LOCK" "$@"
  [ -z "${DRAFTERS_BOUNDARIES-}" ] || set -- --boundaries "$DRAFTERS_BOUNDARIES" "$@"
  (
    PATH=$clean
    export PATH
    unset _DRAFTERS_HOOK
    [ -x "$drafters" ] || drafters=$(command -v drafters) || exit 127
    exec "$drafters" guard --dry-run "$@"
  ) </dev/null >&2
}

# When process $1 was started and who started it: $started and $parent. Fails where that cannot be told.
look_up() {
  [ -r "/proc/$1/stat" ] && IFS= read -r line 2>/dev/null <"/proc/$1/stat" || return 1
  set -- ${line##*") "}
  parent=$2 started=${20}
}

is_shell() {
  program=$(PATH=${PATH-}:/usr/bin:/bin && readlink "/proc/$1/exe") || return 1
  case ${program##*/} in
    sh | bash | bash[-0-9]* | dash | zsh | zsh[-0-9]* | ash | ksh* | mksh | yash | busybox) return 0 ;;
  esac
  return 1
}

# End the shells that sourced the hook, and those between them and this process: a script must not go on.
end_scripts() {
  mains=
  for one in $owners; do # outermost first
    main=${one%%:*}
    if [ "$main" = "$$" ]; then # this process took its place
      continue
    elif [ -z "${one#*:}" ]; then
      [ "$main" != "$PPID" ] || mains="$mains $main"
    elif look_up "$main" && [ "$started" = "${one#*:}" ] && is_shell "$main"; then
      mains="$mains $main"
    fi
  done
  [ -n "$mains" ] || return 0
  first=${mains# }
  first=${first%% *}
  between=
  process=$PPID
  while [ "$process" != "$first" ] && [ "$process" -gt 1 ]; do
    case "$mains " in
      *" $process "*) ;;
      *) ! is_shell "$process" || between="$between $process" ;;
    esac
    look_up "$process" || break
    process=$parent
  done
  for main in $mains; do
    printf '%s\n' "$1" 2>/dev/null >"${here%/*}/ended.$main"
  done
  kill -s VTALRM $mains 2>/dev/null # before the others, so that they wake up to this
  [ "$process" != "$first" ] || [ -z "$between" ] || kill -s TERM $between 2>/dev/null
}

if [ "$name" = drafters_launch ]; then
  case ${1-} in
    --self-test) exit 0 ;;
    '')
      say 'drafters_launch needs a command: drafters_launch python -m sglang.launch_server ...'
      exit 2
      ;;
  esac
else
  set -- "$name" "$@"
fi

if is_launch "$@"; then
  if [ "${DRAFTERS_GUARD-}" != off ]; then
    judge "$@"
    code=$?
    if [ "$code" = 127 ]; then
      say "drafters was not found ($drafters)"
      if [ "${DRAFTERS_GUARD-}" = warn ]; then
        say 'starting anyway (mode warn)'
        code=0
      else
        say 'the launch was not started'
      fi
    fi
    if [ "$code" != 0 ]; then
      [ -z "$owners" ] || end_scripts "$code"
      exit "$code"
    fi
  fi
  PATH=$clean
  export PATH
  unset _DRAFTERS_HOOK
  exec "$@"
fi

# Anything else: the real program, with PATH as it is, so that what it starts is guarded, too.
[ "$name" != drafters_launch ] || exec "$@"
shift
rest=$clean:
while [ -n "$rest" ]; do
  program=${rest%%:*}
  program=${program:-.}/$name
  [ ! -f "$program" ] || [ ! -x "$program" ] || exec "$program" "$@"
  rest=${rest#*:}
done
printf '%s: not found\n' "$name" >&2
exit 127
