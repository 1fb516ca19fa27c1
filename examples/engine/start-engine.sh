#!/bin/sh
# Start SGLang with the flags in FLAGS, a file that `drafters resolve` or resolve-drafter.sh wrote; or start nothing. The
# guard looks at the whole command, then becomes the engine: one process, one pid. Further arguments are the engine's.
set -eu
: "${FLAGS:?a file with the flags of the drafter}" "${TARGET:?directory or Hub id of the target}"

flags=$(cat "$FLAGS")
if [ -z "$flags" ]; then
  echo "$FLAGS is empty: without flags the engine would not speculate" >&2
  exit 5
fi

# What resolve prints is quoted for a shell; it comes last, since of repeated options the last counts.
eval "exec drafters guard -- python3 -m sglang.launch_server --model-path \"\$TARGET\" \"\$@\" $flags"
