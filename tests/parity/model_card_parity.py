#!/usr/bin/env python3
"""Reads the model cards of trainings with huggingface_hub and compares them with log.jsonl.

Usage: model_card_parity.py LONGFORMER. Needs huggingface_hub. Fails when something differs.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import yaml
from huggingface_hub import ModelCard

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
NAMES = ["plain", 'quotes " and: colons', "a | b [c] # d", "--- - x", "tab\tand\u0085more", "é 漢 😀", "yes", "1e5"]


def trained(folder, *arguments):
    command = [sys.argv[1], "finetune", *arguments, "--output-dir", folder, "--max-steps", 2, "--gradient-accumulation-steps", 1]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)


def main():
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        hub = place / "models--some-org--a.model" / "snapshots" / "0123"
        shutil.copytree(FIXTURES / "tiny_longformer_classifier", hub)
        data = place / "data.jsonl"
        data.write_text("".join(json.dumps({"text": f"the house {i}", "label": NAMES[i % 3]}) + "\n" for i in range(30)))
        for number, name in enumerate(NAMES):
            out = place / str(number) / name
            trained(out, hub, data, "--new-head", "--validation-split", 0.3, "--seed", number)
            card = ModelCard.load(out / "README.md")
            last = json.loads((out / "log.jsonl").read_text().splitlines()[-1])
            found = {one.metric_type: one.metric_value for one in card.data.eval_results}
            expected = {key[5:]: value for key, value in last.items() if key.startswith("eval_") and key != "eval_runtime"}
            assert found.keys() == expected.keys() and all(abs(found[k] - expected[k]) < 1e-11 for k in found), (found, expected)
            shown = "".join(" " if character in "\t\u0085" else character for character in name)
            assert card.data.model_name == shown, (card.data.model_name, name)
            assert card.data.base_model == "some-org/a.model" and card.data.library_name == "transformers"
            assert card.data.pipeline_tag == "text-classification" and "longformer.cpp" in card.data.tags
            again = yaml.safe_load(card.data.to_yaml())
            assert again["model-index"][0]["name"] == shown
        print(f"{len(NAMES)} model cards: huggingface_hub reads the metrics, the base model and the name of each")


if __name__ == "__main__":
    main()
