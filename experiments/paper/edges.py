#!/usr/bin/env python3
"""HotpotQA with and without edges between names, and titles and their sentences, on a small scale.

    LONGFORMER_DATA=data experiments/paper/edges.py quickstart/minilm-4096

Data, beginning and settings are those of hotpotqa.py: 682 questions of HotpotQA and 644 of 2WikiMultiHopQA to train, 150 of HotpotQA
to measure, one stage, the question alone global. Rows differ in the edges of the encoder and in its window: with 512 tokens most of a
question's paragraphs see each other anyway, with 64 hardly one sentence sees the next but one. BM25 takes the two best paragraphs by
plain words, and from each the best sentence. Rows are run seed by seed, so that a part of them can be compared; figures are added to
docs/results/edges.jsonl, and the table of all is printed in the end. --max-steps is for trying the script: nothing of it is kept.
"""

import json
import pathlib
import statistics
import tempfile

import experiment
import hotpotqa
import questions

WINDOW = 512
ROWS = {
    "no edges": (WINDOW, ""),
    "names and titles": (WINDOW, "names,titles"),
    "window 64, no edges": (64, ""),
    "window 64, names and titles": (64, "names,titles"),
    "names": (WINDOW, "names"),
    "titles": (WINDOW, "titles"),
}
COLUMNS = (("joint F1", "joint_f1"), ("answer F1", "f1"), ("supporting F1", "sp_f1"), ("paragraph recall", "paragraph_recall"),
           ("gold among the five best", "five_best_gold_recall"))  # fmt: skip


def runs(work, beginnings, seeds, max_steps):
    def run(row, seed):
        window, edges = ROWS[row]
        flags = [*hotpotqa.WEIGHTS, *hotpotqa.QUESTION]
        more = (["--edges", edges] if edges else []) + (["--max-steps", max_steps] if max_steps else [])

        def measure(program):
            name = "-".join(["edges", str(window), edges.replace(",", "-") or "none", str(seed)])
            stage = hotpotqa.train(program, beginnings[window], work / name, work / "hotpotqa-train.json", seed, [*flags, *more])
            found = hotpotqa.measured(program, stage, work / "hotpotqa-dev.json", flags)
            return found | hotpotqa.five_best(program, stage, work, flags)

        return experiment.Run({"row": row, "seed": seed}, measure)

    return [hotpotqa.trivial(work), *(run(row, seed) for seed in range(1, seeds + 1) for row in ROWS)]


def mean_text(values):
    if not values:
        return "–"
    if len(values) == 1:
        return f"{100 * values[0]:.1f}"
    return f"{100 * statistics.mean(values):.1f} ± {100 * statistics.stdev(values) / len(values) ** 0.5:.1f}"


def table(rows):
    """Means over seeds with their standard errors, in percent; larger is better."""
    lines = [f"|  | {' | '.join(title for title, _ in COLUMNS)} | seeds |", "|---" * (len(COLUMNS) + 2) + "|"]
    for name in ("BM25", *ROWS):
        found = [row for row in rows if row["row"] == name]
        if found:
            cells = [mean_text([row[key] for row in found if key in row]) for _, key in COLUMNS]
            lines.append(f"| {name} | {' | '.join(cells)} | {len(found)} |")
    return "\n".join(lines)


def main():
    parser = experiment.options(__doc__, "edges.jsonl")
    parser.add_argument("model", help="folder of MiniLM's conversion to 4,096 tokens")
    parser.add_argument("--max-steps", type=int, help="so few steps, to try the script")
    chosen = parser.parse_args()
    work = pathlib.Path(chosen.work)
    work.mkdir(parents=True, exist_ok=True)
    hotpotqa.write_data(work)
    program = experiment.Program(chosen.binary, experiment.all_cores())
    begun, _ = questions.beginnings(program, work, chosen.model)
    narrow = questions.converted(program, begun, work / "questions-beginning-window-64", ["--window", 64])
    beginnings = {WINDOW: begun, 64: narrow}
    with tempfile.TemporaryDirectory() as trial:
        if chosen.max_steps:
            chosen.results = f"{trial}/edges.jsonl"
        folder = pathlib.Path(trial if chosen.max_steps else work)
        if chosen.max_steps:
            hotpotqa.write_data(folder)
        experiment.perform(runs(folder, beginnings, chosen.seeds, chosen.max_steps), chosen)
        print(table([json.loads(line) for line in pathlib.Path(chosen.results).read_text().splitlines()]))


if __name__ == "__main__":
    main()
