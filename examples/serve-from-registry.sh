#!/bin/sh
# Start a server with the drafter that an alias of the registry points to, with the flags that are right for the engine
# installed here; or start nothing. DRAFTERS_URL and DRAFTERS_TOKEN_FILE say which registry.
set -eu

target=${TARGET:-moonshotai/Kimi-K2.5}
drafter=${DRAFTER:-kimi-eagle3@prod}

# Exits with 3 where no flags are right, 5 where that is not known, 6 where the registry does not answer.
flags=$(drafters resolve "$drafter" --target "$target")

# The guard looks at the whole command once more, then becomes it. What resolve prints is quoted for a shell.
eval "exec drafters guard -- python -m sglang.launch_server --model-path \"\$target\" --tp 8 --trust-remote-code $flags"
