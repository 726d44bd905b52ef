#!/usr/bin/env bash
# run.sh BUILD SECONDS [TARGET…]: fuzzes every target (or those named) for so many seconds, one after
# another at the lowest priority. Starts from the inputs of make_corpus.py, those of earlier runs, and
# regressions/TARGET/, and prints executions, coverage and the number of inputs. A crash fails the run
# and leaves its input in BUILD/crashes/: it belongs into regressions/TARGET/, with a test.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
build=$(realpath "$1")
seconds=$2
shift 2
targets=("$@")
((${#targets[@]})) || mapfile -t targets < <(cd "$build/tests/fuzz" && printf '%s\n' fuzz_* | grep -v '\.' | sed 's/^fuzz_//')
python3 "$here/make_corpus.py" "$build/seeds"
mkdir -p "$build/crashes"
failed=()
for target in "${targets[@]}"; do
  corpus=$build/corpus/$target
  mkdir -p "$corpus" "$here/regressions/$target"
  log=$build/$target.log
  nice -n 19 "$build/tests/fuzz/fuzz_$target" "$corpus" "$build/seeds/$target" "$here/regressions/$target" \
    -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=20000 -print_final_stats=1 \
    -artifact_prefix="$build/crashes/$target-" >"$log" 2>&1 || failed+=("$target")
  rmdir --ignore-fail-on-non-empty "$here/regressions/$target"
  printf '%-18s %12s executions  %s\n' "$target" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
    "$(grep -o 'cov: [0-9]* ft: [0-9]* corp: [0-9]*' "$log" | tail -1)"
done
((${#failed[@]} == 0)) || { echo "fuzz: crashes in ${failed[*]}: see $build/crashes and $build/*.log" >&2; exit 1; }
