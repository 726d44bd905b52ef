#!/usr/bin/env python3
"""Costs of attentions: language models in training and in use, encoders from 512 to 65,536 tokens.

    experiments/compare/costs.py models [--model large]
    experiments/compare/costs.py encoders [--lengths 512 4096 16384 65536]

models: language models of as many weights (41M), drawn at random; a training step of 4,096 characters, reading 4,096 and 16,384, and
what a character costs that is written behind them. encoders: of BERT-base's size, one pass over one document.
Everything in bf16, for which a machine should be idle. Figures are added to
docs/results/compare_costs.jsonl, with the name of the CPU.
"""

import json
import platform

import language_models
import setting
from setting import experiment

STEP = 4096
LENGTHS = (4096, 16384)
WRITTEN = 64
# Reach of each: windows of 512, a segment and a memory of 512, besides 512 compressed rows of four each; strides as long as the
# root of a step, spans that are all 512, chunks of 64 in two rounds, clusters of a sixteenth of the text.
MODELS = {
    "window": language_models.lm("window", STEP, windows=[511] * 6, dilations=[0] * 6),
    "dense": language_models.lm("dense", STEP),
    "Transformer-XL": language_models.lm("recurrent", 512, **language_models.memories(512, 512)),
    "Compressive": language_models.lm("compressive", 512, **language_models.memories(512, 512, 512), compression="mean",
                                      compression_loss="none"),
    "Performer": language_models.lm("performer", STEP, features=256),
    "Sparse Transformer, strided": language_models.lm("sparse", STEP, pattern="strided", stride=64, max_position_embeddings=32768),
    "Sparse Transformer, fixed": language_models.lm("sparse", STEP, pattern="fixed", stride=64, summary=8, max_position_embeddings=32768),
    "Adaptive spans": language_models.lm("adaptive", STEP, max_span=512, span_ramp=32, initial_span=1.0),
    "Reformer": language_models.lm("reformer", STEP, attn_layers=["local", "lsh"], num_hashes=2, axial_pos_shape=[64, 64]),
    "Routing Transformer": language_models.lm("routing", STEP, clusters=16, local_window=255),
    "BP-Transformer": language_models.lm("binary_partition", STEP, tree_neighbors=64),
}  # fmt: skip
BASE = {"vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu"}  # fmt: skip
ENCODERS = {
    "dense": {"model_type": "bert"},
    "Longformer, window 512": {"model_type": "longformer", "attention_window": 512, "pad_token_id": 1},
    "Linformer, k 256": {"model_type": "linformer", "base_model_type": "bert", "projected_length": 256},
    "Performer, m 256": {"model_type": "performer", "base_model_type": "bert", "features": 256},
    "BigBird, blocks of 64": {"model_type": "big_bird", "block_size": 64, "num_random_blocks": 3},
    "Blockwise, 4 blocks": {"model_type": "blockwise", "base_model_type": "bert", "blocks": 4},
    "Sparse, strided 256": {"model_type": "sparse", "base_model_type": "bert", "pattern": "strided", "stride": 256},
    "Reformer": {"model_type": "reformer", "attn_layers": ["local", "lsh"] * 6, "num_hashes": 2, "hash_seed": 0, "axial_pos_embds": False,
                 "attention_head_size": 64, "feed_forward_size": 3072, "is_decoder": False},
    "Funnel, 3 blocks": {"model_type": "funnel", "block_sizes": [4, 4, 4], "d_model": 768, "n_head": 12, "d_head": 64, "d_inner": 3072},
}  # fmt: skip


def cpu():
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return names[0] if names else platform.processor()


def written(chosen, name, config):
    path = chosen.work / f"costs-{name}.json"
    path.write_text(json.dumps(config))
    return path


def of_model(chosen, row):
    def run(program):
        keys = MODELS[row]["model"]
        config = written(chosen, "model", setting.language_model(chosen.model, **keys))
        steps = program("bench", "train", "--config", config, "-n", STEP, "--dtype", "bf16")[-1]
        found = {"training_characters_per_second": round(steps["tokens_per_second"], 1),
                 "training_bytes": steps["peak_rss_bytes"]}  # fmt: skip
        if "axial_pos_shape" in keys:  # such a model trains on texts of one length alone
            config = written(chosen, "model", setting.language_model(chosen.model, **keys | {"axial_pos_shape": [128, 256]}))
        for length in LENGTHS:
            used = program("bench", "generate", "--config", config, "-n", length, "-t", WRITTEN, "--dtype", "bf16", "-r", 1)[-1]
            found[f"read_{length}"] = {"characters_per_second": round(length / used["encode_seconds"], 1),
                                       "seconds_per_1000_written": round(1000 * used["step_seconds"], 3),
                                       "bytes": used["peak_rss_bytes"]}  # fmt: skip
        return found

    return run


def of_encoder(chosen, row, length):
    def run(program):
        places = length + (2 if "Longformer" in row else 0)
        config = written(chosen, "encoder", BASE | ENCODERS[row] | {"max_position_embeddings": places})
        used = program("bench", "model", "--config", config, "-n", length, "--dtype", "bf16",
                       "-r", 3 if length <= STEP else 1)[-1]  # fmt: skip
        return {"seconds": used["seconds"], "bytes": used["peak_rss_bytes"], "gemm_gflops": used["gemm_gflops"]}

    return run


def main():
    parser = setting.options(__doc__, "compare_costs.jsonl")
    parser.add_argument("experiment", choices=("models", "encoders"))
    parser.add_argument("--model", choices=setting.SIZES, default="large")
    parser.add_argument("--lengths", type=int, nargs="+", default=(512, 4096, 16384, 65536))
    parser.add_argument("--rows", help="these rows alone, behind each other with ; between them")
    chosen = setting.start(parser)
    wanted = chosen.rows.split(";") if chosen.rows else [*MODELS, *ENCODERS]
    key = {"experiment": chosen.experiment, "cpu": cpu()}
    if chosen.experiment == "models":
        runs = [experiment.Run(key | {"model": chosen.model, "row": row}, of_model(chosen, row)) for row in MODELS if row in wanted]
    else:
        runs = [experiment.Run(key | {"row": row, "n": length}, of_encoder(chosen, row, length))
                for length in chosen.lengths for row in ENCODERS if row in wanted]  # fmt: skip
    experiment.perform(runs, chosen)


if __name__ == "__main__":
    main()
