#!/usr/bin/env bash
# Does this upgrade of the engine move what my drafters are fed? Needs no engine, no GPU and no weights: only config.json
# of each drafter. Exit code 3: it does; 5: that is not known; 0: it does not.
#
#   examples/check-upgrade.sh 0.5.12.post1 0.5.23 KimiK25ForConditionalGeneration 61 ./drafter...
set -euo pipefail

if (($# < 5)); then
  echo "usage: $0 BEFORE AFTER ARCHITECTURE LAYERS DRAFTER..." >&2
  exit 2
fi
before=$1 after=$2 architecture=$3 layers=$4
shift 4

exec drafters engine diff "$before" "$after" --fail-on-change \
  --architecture "$architecture" --layers "$layers" --drafters "$@"
