#!/bin/sh
# Write what an engine needs for a drafter of the registry into the directory OUT: drafter/, the files as this release must
# see them, and flags, one line for a shell. Where that cannot be (exit 3: refused, 5: not known, 6: no answer) there is
# no file with flags afterwards. DRAFTERS_URL and DRAFTERS_TOKEN say which registry.
set -eu
: "${REFERENCE:?a drafter of the registry, e.g. kimi-eagle3@prod}" "${ENGINE:?a release, e.g. sglang==0.5.23}"
: "${TARGET:?directory of the target}" "${OUT:?directory to write to}"

rm -rf "$OUT/flags" "$OUT/drafter"
drafters pull "$REFERENCE" --for "$ENGINE" --target "$TARGET" -o "$OUT/drafter" --json >"$OUT/answer.json"
python3 -c 'import json, shlex, sys; print(shlex.join(json.load(sys.stdin)["flags"]))' \
  <"$OUT/answer.json" >"$OUT/flags.part"
mv "$OUT/flags.part" "$OUT/flags"
