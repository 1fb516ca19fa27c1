#!/bin/sh
# The entry point of an engine's image: flags for the engine that is in it, then start-engine.sh; or nothing is started.
# The drafter's files go to the cache (DRAFTERS_CACHE, a volume), so that a restart fetches nothing.
set -eu
: "${REFERENCE:?a drafter of the registry, e.g. kimi-eagle3@prod}" "${TARGET:?directory or Hub id of the target}"

FLAGS=$(mktemp)
export FLAGS
drafters resolve "$REFERENCE" --target "$TARGET" >"$FLAGS"
exec "$(dirname "$0")/start-engine.sh" "$@"
