#!/usr/bin/env bash
# Would this launch still be right on other releases? Needs no engine, no GPU and no weights: only the config.json of the
# target, and config.json and model.safetensors of the drafter.
#
#   examples/check-in-ci.sh 0.5.12.post1 0.5.23 -- python -m sglang.launch_server ...
set -uo pipefail

releases=()
while [[ $# -gt 0 && $1 != -- ]]; do
  releases+=("$1")
  shift
done
if ((${#releases[@]} == 0 || $# < 2)); then
  echo "usage: $0 RELEASE... -- LAUNCH..." >&2
  exit 2
fi
shift

worst=0
for release in "${releases[@]}"; do
  drafters check --engine "sglang==$release" -- "$@"
  code=$?
  ((code > worst)) && worst=$code
done
exit "$worst"
