#!/usr/bin/env python3
"""Reads the event files of a short training with TensorBoard itself and compares them with log.jsonl.

Usage: events_parity.py TOY_TRAINER. Needs tensorboard. Exits 1 when something differs.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def expected_scalars(lines):
    """(step, value) pairs by tag, as the lines of log.jsonl give them."""
    scalars = {}
    for line in lines:
        for key, value in line.items():
            if key != "step":
                tag = f"eval/{key[5:]}" if key.startswith("eval_") else f"train/{key}"
                scalars.setdefault(tag, []).append((line["step"], value))
    return scalars


def main():
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.argv[1], "--output-dir", folder, "--eval-strategy", "epoch", "--save-total-limit", "0"]
        # The second training begins at step 7 again, behind which the first one wrote events too.
        subprocess.run([*command, "--max-steps", "30"], check=True, capture_output=True)
        subprocess.run([*command, "--max-steps", "60", "--resume-from-checkpoint", f"{folder}/checkpoint-7"],
                       check=True, capture_output=True)  # fmt: skip
        lines = [json.loads(line) for line in (pathlib.Path(folder) / "log.jsonl").read_text().splitlines()]
        events = EventAccumulator(f"{folder}/runs")
        events.Reload()
        expected = expected_scalars(lines)
        found = {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    wrong = set(expected) ^ set(found)
    for tag in sorted(set(expected) & set(found)):
        pairs = zip(expected[tag], found[tag], strict=False)
        close = all(a[0] == b[0] and abs(a[1] - b[1]) <= 1e-6 * abs(a[1]) for a, b in pairs)
        if not close or len(expected[tag]) != len(found[tag]):
            wrong.add(tag)
    print(f"{len(found)} tags, {sum(map(len, found.values()))} values, different: {sorted(wrong) or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
