#!/usr/bin/env python3
"""Language models of one size with different attention.

    LONGFORMER_DATA=data experiments/compare/language_models.py data [--characters 20M] [--only window] [--model medium]
    LONGFORMER_DATA=data experiments/compare/language_models.py speeds --seeds 3, then time
    LONGFORMER_DATA=data experiments/compare/language_models.py positions|shares|features|settings|windows|stages

Models of 4 layers of 128 (0.89M weights; medium: 6 of 192, 2.94M) read the novels of litbank as bytes; two novels that none has read are for testing.
data: window, dense, Transformer-XL, Compressive Transformer, Performer, Sparse Transformers, adaptive spans, Reformer, Routing and
BP-Transformer and an LSTM (experiments/compare/lstm_baseline.py, PyTorch) on prefixes of 0.25 to 59 MB; speeds: characters that the same
models read in a second of training, one after the other in one sitting, a round for each seed (nothing else may compute meanwhile);
time: the same models, as many characters of 16 MB as each reads in equal time, by the medians of speeds. positions: ways to know the order, at lengths that were not trained. shares: where
the attention of models with memories goes while they learn. features: what of a Performer's features matters, half of all
combinations of five settings, and single ones. settings: how much the many settings of a Compressive Transformer
matter. windows: windows that grow, stay or fall with depth, and dilated causal convolutions
(experiments/compare/convolution_baseline.py, PyTorch). stages: short segments first.
Figures are added to docs/results/compare_language_models.jsonl. The LSTM and the convolutions need torch, and
shares needs longformer_cpp.plot.
"""

import json
import pathlib
import subprocess
import sys

import setting
from setting import experiment

CHARACTERS_PER_STEP = 4096
# Bytes of novels to train on, in MB.
SIZES = (0.25, 1, 4, 16, 59)
LONG = 16384
EVALUATED = 131_072
# Sizes of as many weights.
LSTM = {"small": ["--hidden", 236], "medium": ["--hidden", 460]}
CONVOLUTION = {"small": ["--hidden", 128, "--inner", 340], "medium": ["--hidden", 192, "--inner", 944]}


def lm(attention, length, **keys):
    return {"model": {"attention": attention} | keys, "length": length}


def memories(segment, memory, compressed=0):
    return {"segment_length": segment, "memory_length": memory} | (
        {"compressed_memory_length": compressed} if compressed else {})  # fmt: skip


MODELS = {
    "window": lm("window", 512, windows=[255] * 6, dilations=[0] * 6),
    "dense": lm("dense", 512),
    # A Performer has no relative positions: this tells what is due to that.
    "dense, sinusoidal": lm("dense", 512, positions="sinusoidal"),
    "Transformer-XL": lm("recurrent", 256, **memories(256, 256)),
    "Compressive": lm("compressive", 128, **memories(128, 128, 128), compression="mean", compression_loss="none"),
    "Performer": lm("performer", 512, features=128),
    "Sparse Transformer, strided": lm("sparse", 512, pattern="strided", stride=32),
    "Sparse Transformer, fixed": lm("sparse", 512, pattern="fixed", stride=32, summary=8),
    "Adaptive spans": lm("adaptive", 512, max_span=512, span_ramp=32, initial_span=0.1),
    "Reformer": lm("reformer", 512, attn_layers=["local", "lsh"], local_attn_chunk_length=64, lsh_attn_chunk_length=64,
                   num_hashes=2, axial_pos_shape=[16, 32]),
    "Routing Transformer": lm("routing", 512, clusters=8, local_window=127),
    "BP-Transformer": lm("binary_partition", 512, tree_neighbors=16),
}  # fmt: skip
POSITIONS = {
    **{f"dense, {positions}": lm("dense", 256, positions=positions,
                                 **({"max_position_embeddings": 256} if positions == "learned" else {}))
       for positions in ("relative", "learned", "sinusoidal", "infused", "none")},
    **{f"Transformer-XL, {positions}": lm("recurrent", 256, **memories(256, 256), positions=positions)
       for positions in ("relative", "sinusoidal", "infused", "none")},
}  # fmt: skip
SHARES = {
    "convolution, attention loss": lm("compressive", 128, **memories(128, 128, 128)),
    "mean": lm("compressive", 128, **memories(128, 128, 128), compression="mean", compression_loss="none"),
    "Transformer-XL": lm("recurrent", 128, **memories(128, 256)),
}  # fmt: skip


def feature_arms():
    """Half of all combinations of five settings, such that effects of single ones are clear of each other's."""
    choices = [("feature_kernel", "softmax", "hyperbolic"), ("orthogonal_features", True, False),
               ("feature_lengths", "gaussian", "constant"), ("feature_redraw_interval", 1000, 0), ("features", 256, 64)]  # fmt: skip
    arms = {}
    for number in range(16):
        bits_of = [number >> place & 1 for place in range(4)]
        bits_of.append(sum(bits_of) % 2)
        keys = {name: values[bit] for (name, *values), bit in zip(choices, bits_of, strict=True)}
        arms["-".join(str(value) for value in keys.values())] = lm("performer", 512, **keys)
    for name, keys in {"redrawn at every step": {"feature_redraw_interval": 1}, "relu": {"feature_kernel": "relu"},
                       "elu": {"feature_kernel": "elu", "features": 0}}.items():  # fmt: skip
        arms[name] = lm("performer", 512, **keys)
    return arms | {"dense": MODELS["dense"]}


def compressive(memory, compressed, rate=4, kind="mean", loss="none", **keys):
    model = lm("compressive", 128, **memories(128, memory, compressed), compression_rate=rate, compression=kind,
               compression_loss=loss)  # fmt: skip
    return model | keys


SETTINGS = {
    **{f"mean, rate {rate}, {memory}:{256 - memory}": compressive(memory, 256 - memory, rate)
       for rate in (2, 4, 8) for memory in (64, 128, 192)},
    **{f"{kind}, {loss}": compressive(128, 128, kind=kind, loss=loss)
       for kind, loss in (("convolution", "attention"), ("convolution", "autoencoding"), ("dilated", "attention"),
                          ("convolution", "bptt"), ("max", "none"), ("most-used", "none"))},
    **{f"convolution, attention, learning rate {rate}": compressive(128, 128, kind="convolution", loss="attention",
                                                                    rate_of_learning=rate) for rate in (5e-4, 2e-3)},
    "Transformer-XL": lm("recurrent", 128, **memories(128, 256)),
}  # fmt: skip
REACHES = {"growing": [32, 64, 96, 128, 192, 256], "constant": [128] * 6, "falling": [256, 192, 128, 96, 64, 32]}
WINDOWS = {
    name + (", dilated" if dilated else ""): lm("window", 1024, windows=windows, dilated_heads=2,
                                                dilations=[0, 0, 0, 1, 2, 3] if dilated else [0] * 6)
    for name, windows in REACHES.items() for dilated in (False, True)
}  # fmt: skip
STAGES = {
    f"{positions}, {name}": lm("dense", 512, positions=positions) | {"stages": stages}
    for positions in ("relative", "infused")
    for name, stages in {"512": [(512, 1)], "128, then 512": [(128, 1 / 2), (512, 1 / 2)],
                         "128, 256, 512": [(128, 1 / 3), (256, 1 / 3), (512, 1 / 3)], "128": [(128, 1)]}.items()
}  # fmt: skip
# The net of convolutions has no arm: it is experiments/compare/convolution_baseline.py.
PLAIN = {"features": feature_arms(), "settings": SETTINGS, "windows": WINDOWS | {"convolutions": None}, "stages": STAGES}


def prefix(work, megabytes):
    """The first novels for training."""
    path = work / f"novels-first-{megabytes}.txt"
    if not path.exists():
        part = path.with_suffix(".part")
        part.write_bytes(setting.novels(work)[0].read_bytes()[: int(megabytes * setting.MEGABYTE)])
        part.rename(path)
    return path


def held_out(work):
    """Part of a novel that no model has read."""
    path = work / "novels-test.txt"
    if not path.exists():
        path.write_bytes(setting.novels(work)[1].read_bytes()[-EVALUATED:])
    return path


def train(program, chosen, name, arm, text, characters, seed, flags=()):
    work, target = chosen.work, chosen.work / name
    if (target / "model.safetensors").exists():
        return target
    config = work / f"{name}.json"
    config.write_text(json.dumps(setting.language_model(chosen.model, **arm["model"])))
    steps = characters // CHARACTERS_PER_STEP
    batch = ["--length", arm["length"], "--per-device-train-batch-size", CHARACTERS_PER_STEP // arm["length"],
             *setting.optimizer(steps, arm.get("rate_of_learning", 1e-3))]  # fmt: skip
    if "stages" in arm:
        phases = [{"length": length, "batch": CHARACTERS_PER_STEP // length, "learning_rate": 1e-3,
                   "steps": max(1, round(steps * share)), "warmup_steps": 0 if at else min(500, steps // 5)}
                  for at, (length, share) in enumerate(arm["stages"])]  # fmt: skip
        file = work / f"{name}-phases.json"
        file.write_text(json.dumps(phases))
        batch = ["--phases", file, "--per-device-train-batch-size", 8, "--max-grad-norm", 0.25, "--save-steps", 500,
                 "--resume-from-checkpoint", "last"]  # fmt: skip
    program("pretrain-lm", "--config", config, text, "--output-dir", target, "--bf16", "--seed", seed,
            "--validation-file", setting.novels(work)[1], "--eval-strategy", "steps", "--eval-steps", max(1, steps // 10), "--eval-characters", 65536, *flags,
            *batch)  # fmt: skip
    return target


def bits(program, folder, text, arm, length=None, characters=EVALUATED):
    """BPC of the test novel; models that see everything read windows, of which the second half counts."""
    length = length or arm["length"]
    if arm["model"]["attention"] in ("dense", "performer", "sparse", "reformer", "routing", "binary_partition"):
        flags = ["--window-characters", length, "--step-characters", length // 2]
    else:
        flags = ["--streaming"]
    return round(program("evaluate", folder, text, "--characters", characters, *flags)[-1]["metrics"]["bpc"], 4)


def named(chosen, row, *more):
    words = "-".join(row.replace(",", "").split()).lower()
    return "-".join(["lm", chosen.model, chosen.experiment, words, *map(str, more), str(chosen.characters)])


def of_baseline(chosen, script, text, seed, characters, sizes):
    command = [sys.executable, setting.ROOT / "experiments" / "compare" / script, text, setting.novels(chosen.work)[1],
               held_out(chosen.work), "--characters", characters, "--seed", seed, *sizes[chosen.model]]  # fmt: skip
    done = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def of_data(chosen, row, megabytes, seed, characters):
    def run(program):
        text = prefix(chosen.work, megabytes)
        if row == "LSTM":
            return of_baseline(chosen, "lstm_baseline.py", text, seed, characters, LSTM)
        arm = MODELS[row]
        arm = arm | {"model": arm["model"] | {"dropout": 0.2 if megabytes <= 1 else 0.1}}
        folder = train(program, chosen, named(chosen, row, megabytes, seed, characters), arm, text, characters, seed)
        points, seconds = setting.curve(folder, CHARACTERS_PER_STEP)
        return {"characters_read": characters, "test_bpc": bits(program, folder, held_out(chosen.work), arm),
                "curve": points, "seconds": seconds}  # fmt: skip

    return run


def of_positions(chosen, row, seed):
    def run(program):
        arm = POSITIONS[row]
        folder = train(program, chosen, named(chosen, row, seed), arm, prefix(chosen.work, SIZES[-1]),
                       chosen.characters, seed)  # fmt: skip
        text, found = held_out(chosen.work), {}
        for length in (256, 512, 1024, 2048, 4096):
            if "learned" in row and length > 256:
                continue
            if arm["model"]["attention"] == "dense":
                found[length] = bits(program, folder, text, arm, length, 32768)
            else:
                metrics = program("evaluate", folder, text, "--memory-length", length, "--characters", 32768)[-1]["metrics"]
                found[length] = round(metrics["bpc"], 4)
        points, seconds = setting.curve(folder, CHARACTERS_PER_STEP)
        return {"bpc_by_length": found, "curve": points, "seconds": seconds}

    return run


def of_shares(chosen, row, seed):
    from longformer_cpp import plot

    def run(program):
        arm = SHARES[row]
        folder = train(program, chosen, named(chosen, row, seed), arm, prefix(chosen.work, SIZES[-1]),
                       chosen.characters, seed, ["--attention-shares"])  # fmt: skip
        plot.attention_shares(folder / "log.jsonl", chosen.work / f"{folder.name}.svg")
        history = []
        for row_of_log in setting.log(folder):
            if "eval_cm_p0" in row_of_log:
                history.append([row_of_log["step"] * CHARACTERS_PER_STEP] +
                               [round(row_of_log[f"eval_{kind}_p{age}"], 5)
                                for kind in ("cm", "em", "seq") for age in range(6)])  # fmt: skip
        last = program("evaluate", folder, held_out(chosen.work), "--attention-shares")[-1]
        points, seconds = setting.curve(folder, CHARACTERS_PER_STEP)
        return {"test_bpc": round(last["metrics"]["bpc"], 4), "shares": history, "layers": last["attention_shares"],
                "curve": points, "seconds": seconds}  # fmt: skip

    return run


def plainly(chosen, row, seed):
    def run(program):
        if row == "convolutions":
            return of_baseline(chosen, "convolution_baseline.py", prefix(chosen.work, SIZES[-1]), seed, chosen.characters,
                               CONVOLUTION)  # fmt: skip
        arm = PLAIN[chosen.experiment][row]
        folder = train(program, chosen, named(chosen, row, seed), arm, prefix(chosen.work, SIZES[-1]),
                       chosen.characters, seed)  # fmt: skip
        points, seconds = setting.curve(folder, CHARACTERS_PER_STEP)
        return {"test_bpc": bits(program, folder, held_out(chosen.work), arm), "curve": points, "seconds": seconds}

    return run


def of_speeds(chosen, row, seed, characters):
    def run(program):
        text = prefix(chosen.work, 16)
        if row == "LSTM":
            seconds = of_baseline(chosen, "lstm_baseline.py", text, seed, characters, LSTM)["seconds"]
        else:
            folder = train(program, chosen, named(chosen, row, seed), MODELS[row], text, characters, seed)
            seconds = setting.curve(folder, CHARACTERS_PER_STEP)[1]
        return {"characters_per_second": round(characters / seconds)}

    return run


def speeds(chosen):
    """Characters that a model reads in a second of training, by the runs of speeds."""
    found = setting.speeds(map(json.loads, pathlib.Path(chosen.results).read_text().splitlines()), chosen.model)
    if missing := sorted({*MODELS, "LSTM"} - found.keys()):
        sys.exit(f"expected the speeds of all models first (speeds --seeds 3), found none of {', '.join(missing)}")
    return found


CHARACTERS = {"data": 20_000_000, "speeds": 409_600, "time": 1, "positions": 15_000_000, "shares": 40_000_000, "features": 10_000_000,
              "settings": 15_000_000, "windows": 15_000_000, "stages": 20_000_000}  # fmt: skip


def main():
    parser = setting.options(__doc__, "compare_language_models.jsonl")
    parser.add_argument("experiment", choices=CHARACTERS)
    parser.add_argument("--characters", type=setting.number)
    parser.add_argument("--model", choices=setting.SIZES, default="small")
    parser.add_argument("--seconds", type=int, default=240, help="of training, for time")
    parser.add_argument("--sizes", type=float, nargs="+", default=SIZES, help="MB of text, for data")
    chosen = setting.start(parser)
    setting.novels(chosen.work)
    chosen.characters = chosen.characters or CHARACTERS[chosen.experiment]
    key = {"experiment": chosen.experiment, "model": chosen.model, "characters": chosen.characters}
    runs = []
    for seed in range(1, chosen.seeds + 1):
        if chosen.experiment == "data":
            for size in chosen.sizes:
                size = int(size) if size == int(size) else size
                # Forty epochs at most.
                characters = min(chosen.characters, int(40 * size * setting.MEGABYTE))
                runs += [experiment.Run(key | {"row": row, "megabytes": size, "seed": seed},
                                        of_data(chosen, row, size, seed, characters)) for row in (*MODELS, "LSTM")]  # fmt: skip
        elif chosen.experiment == "speeds":
            runs += [experiment.Run(key | {"row": row, "seed": seed}, of_speeds(chosen, row, seed, chosen.characters))
                     for row in (*MODELS, "LSTM")]  # fmt: skip
        elif chosen.experiment == "time":
            for row, speed in speeds(chosen).items():
                characters = round(chosen.seconds * speed, -5)
                runs.append(experiment.Run(key | {"characters": chosen.seconds, "row": row, "seed": seed},
                                           of_data(chosen, row, 16, seed, int(characters))))  # fmt: skip
        elif chosen.experiment == "positions":
            runs += [experiment.Run(key | {"row": row, "seed": seed}, of_positions(chosen, row, seed))
                     for row in POSITIONS]  # fmt: skip
        elif chosen.experiment == "shares":
            runs += [experiment.Run(key | {"row": row, "seed": seed}, of_shares(chosen, row, seed)) for row in SHARES]
        else:
            runs += [experiment.Run(key | {"row": row, "seed": seed}, plainly(chosen, row, seed))
                     for row in PLAIN[chosen.experiment]]  # fmt: skip
    experiment.perform(runs, chosen)


if __name__ == "__main__":
    main()
