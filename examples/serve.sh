#!/usr/bin/env bash
# A start script with the gate in front of the engine. `exec` and the guard's own exec keep one process and one pid.
set -euo pipefail

TARGET=${TARGET:?directory or Hub id of the target}
DRAFTER=${DRAFTER:?directory or Hub id of the drafter}

exec drafters guard -- \
  python -m sglang.launch_server \
  --model-path "$TARGET" \
  --speculative-algorithm EAGLE3 \
  --speculative-draft-model-path "$DRAFTER" \
  --speculative-num-steps 3 \
  --speculative-eagle-topk 1 \
  --speculative-num-draft-tokens 4 \
  "$@"
