#!/usr/bin/env bash
# A start script as there are many, with one line more: the hook. From there on no engine is started that the gate refuses,
# however the script starts it, and a script that was refused ends: it does not wait for a port that nobody opens.
hook=$(drafters hook shell) || exit; eval "$hook"

python=${VENV:?the environment that has the engine}/bin/python
nohup "$python" -m sglang.launch_server --model-path "${TARGET:?directory of the target}" "$@" >"${LOG:-/dev/null}" &
engine=$!
trap 'kill "$engine" 2>/dev/null' EXIT

until "$python" -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1], timeout=2)' \
  "${HEALTH:-http://127.0.0.1:30000/health}" 2>/dev/null; do
  kill -0 "$engine" || exit 1 # it has ended by itself
  sleep 0.2
done
echo "serving, pid $engine"
wait "$engine"
