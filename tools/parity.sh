#!/usr/bin/env bash
# parity.sh PYTHON: runs every comparison of tests/parity with the Python that has the oracles. Each
# prints a table and fails on a difference; all of them run, and one failure fails the whole.
set -euo pipefail
python=$1
cd "$(dirname "$0")/.."

failed=()
count=0
for script in tests/parity/[a-z]*.py; do
  grep -q '__main__' "$script" || continue
  echo "== $script"
  begin=$SECONDS
  PYTHONDONTWRITEBYTECODE=1 "$python" "$script" </dev/null || failed+=("$script")
  echo "== $script: $((SECONDS - begin)) s"
  count=$((count + 1))
done
((count)) || { echo "parity.sh: nothing to compare in tests/parity" >&2; exit 1; }
((${#failed[@]} == 0)) || { echo "parity.sh: ${failed[*]} found differences" >&2; exit 1; }
