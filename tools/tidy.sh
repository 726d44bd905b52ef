#!/usr/bin/env bash
# tidy.sh [BASE]: clang-tidy over the sources of the library and the program; with BASE only over
# those that differ from that commit. Needs a configured build (compile_commands.json).
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/tidy

# Its own configuration: clang is the compiler, so that every flag is one that clang-tidy knows.
cmake --preset release -B "$build" -DCMAKE_CXX_COMPILER=clang++ -DLONGFORMER_TESTS=OFF \
  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null

if (($#)); then
  mapfile -t files < <(git diff --name-only --diff-filter=d "$1" -- 'src/*.cc' 'apps/*.cc')
else
  mapfile -t files < <(git ls-files --cached --others --exclude-standard 'src/*.cc' 'apps/*.cc')
fi
((${#files[@]})) || exit 0
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "${JOBS:-$(nproc)}" clang-tidy --quiet -p "$build" 2> >(grep -v ' warnings generated' >&2)
