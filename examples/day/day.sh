#!/usr/bin/env bash
# A day with a table of long documents: look, train, measure, label, explain, search, serve.
#
#     examples/day/day.sh MODEL train.csv test.csv FOLDER
#
# The tables have the columns id, text and label. MODEL is an encoder, as quickstart/longformer-minilm-4096;
# what is made is in FOLDER. docs/guides/table.md takes the same steps by hand.
set -euo pipefail
model=$1 train=$2 test=$3 folder=$4
longformer=${LONGFORMER_BINARY:-longformer}
mkdir -p "$folder"

step() { # NAME COMMAND…: the command, and on stderr its seconds on the clock and on the processors
  local TIMEFORMAT=$'step\t'$1$'\t%R\t%U'
  time "${@:2}"
}

step look "$longformer" tokenize "$model" --stats "$train"
step train "$longformer" finetune "$model" "$train" --task classify --validation-split 0.1 --output-dir "$folder/adapter" \
  --lora-rank 8 --learning-rate 5e-4 --head-learning-rate 1e-3 --num-train-epochs "${EPOCHS:-2}" \
  --gradient-accumulation-steps 8 --load-best-model-at-end --bf16 --truncate
step publish "$longformer" convert "$model" "$folder/model" --merge-adapter "$folder/adapter" --overwrite
step measure "$longformer" evaluate "$folder/model" "$test" --truncate
step label "$longformer" classify "$folder/model" "$test" --truncate --dtype bf16 --top-k all -o "$folder/classes.csv"
step explain "$longformer" classify "$folder/model" "$test" --truncate --shard 1/40 --explain gradient -o "$folder/why.jsonl"
step index "$longformer" search "$model" "$train" --index "$folder/documents.index"
step search "$longformer" search "$model" --index "$folder/documents.index" --top-k 3 --query "${QUESTION:-a story about a dog}"
step serve "$longformer" serve search="$model" classes="$folder/model" --index "$folder/documents.index" --check
