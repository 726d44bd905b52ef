"""pretrain-lm, evaluate, generate and info on the other language models: Transformer-XL, Compressive, Performer."""

import json
import math
import shutil

import pytest
from cli_character_lm_test import TEXT, score, tensors, written
from cli_test import FIXTURES, ROOT, run

CONFIG = {
    "model_type": "longformer-lm", "vocabulary": "text8", "hidden_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "segment_length": 16, "memory_length": 16, "dropout": 0.1, "attention_dropout": 0.1,
}  # fmt: skip
KINDS = {
    "dense": {"attention": "dense"},
    "learned": {"attention": "dense", "positions": "learned", "max_position_embeddings": 16},
    "performer": {"attention": "performer", "features": 16, "feature_redraw_interval": 5},
    "recurrent": {"attention": "recurrent"},
    "infused": {"attention": "recurrent", "positions": "infused"},
    "compressive": {"attention": "compressive", "compressed_memory_length": 8, "compression_rate": 4},
    "used": {"attention": "compressive", "compressed_memory_length": 8, "compression_rate": 4, "compression": "most-used",
             "compression_loss": "attention"},
    "dilated": {"attention": "compressive", "compressed_memory_length": 8, "compression_rate": 4, "compression": "dilated",
                "dilation_rates": [1, 2]},
    "unrolled": {"attention": "compressive", "compressed_memory_length": 8, "compression_rate": 4, "compression_loss": "bptt"},
}
FIXTURE = FIXTURES / "memory_lm"


@pytest.fixture
def text(tmp_path):
    return written(tmp_path / "text.txt", TEXT * 60)


@pytest.fixture(params=KINDS)
def config(request, tmp_path):
    return written(tmp_path / "config.json", CONFIG | KINDS[request.param])


def train(config, text, output, *flags):
    return run("pretrain-lm", "--config", config, text, "--output-dir", output, "--threads", 1,
               "--per-device-train-batch-size", 4, "--gradient-accumulation-steps", 1, *flags)  # fmt: skip


class TestTraining:
    def test_loss_falls_and_the_folder_is_a_model(self, config, text, tmp_path):
        done = train(config, text, tmp_path / "out", "--max-steps", 150, "--learning-rate", 1e-2,
                     "--length", 16, "--logging-steps", 50, "--eval-strategy", "steps", "--eval-steps", 75,
                     "--json").passes()  # fmt: skip
        assert done.json[0]["steps"] == 150
        log = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
        losses = [row["loss"] for row in log if "loss" in row]
        assert losses[0] > losses[-1] + 0.5 and losses[-1] < 0.7 * math.log(27)
        last = [row for row in log if "eval_bpc" in row][-1]
        kind = json.loads(config.read_text())["attention"]
        way = ["--window-characters", 16, "--step-characters", 8] if kind in ("dense", "performer") else ["--streaming"]
        here = score(tmp_path / "out", text, "--part", "validation", *way)["metrics"]
        assert math.isclose(here["bpc"], last["eval_bpc"], rel_tol=1e-5)
        compressive = '"compressive"' in config.read_text() and "bptt" not in config.read_text()
        assert ("compression_loss" in here) == ("eval_compression_loss" in last) == compressive
        if compressive:
            assert math.isclose(here["compression_loss"], last["eval_compression_loss"], rel_tol=1e-5)
        assert not (tmp_path / "out" / "state.json").exists()

    @pytest.mark.parametrize("config", ["performer"], indirect=True)
    @pytest.mark.parametrize("gradients", [[], ["--gradient-checkpointing"]])
    def test_features_are_drawn_again_the_same_way(self, config, text, tmp_path, gradients):
        """Before step 5: a checkpoint from before, or from behind, ends with the same bits."""
        whole, resumed = tmp_path / "whole", tmp_path / "resumed"
        flags = ["--max-steps", 8, "--save-steps", 2, "--save-total-limit", 0, "--length", 16, *gradients]
        train(config, text, whole, *flags).passes()
        name = "layers.1.features"
        before, after = (tensors(whole / f"checkpoint-{step}" / "model.safetensors")[name] for step in (4, 6))
        assert before.shape == (16, 8) and (before != after).any()
        for step in (4, 6):
            shutil.rmtree(resumed, ignore_errors=True)
            shutil.copytree(whole / f"checkpoint-{step}", resumed / f"checkpoint-{step}")
            train(config, text, resumed, *flags, "--resume-from-checkpoint", "last").passes()
            assert (whole / "model.safetensors").read_bytes() == (resumed / "model.safetensors").read_bytes()

    @pytest.mark.parametrize("config", ["recurrent", "compressive", "unrolled"], indirect=True)
    def test_resumed_within_an_epoch_it_ends_with_the_same_bits(self, config, text, tmp_path):
        whole, resumed = tmp_path / "whole", tmp_path / "resumed"
        flags = ["--max-steps", 8, "--save-steps", 3, "--save-total-limit", 0]
        train(config, text, whole, *flags).passes()
        state = json.loads((whole / "checkpoint-3" / "state.json").read_text())
        # A step of the unrolled model reads two segments.
        assert state["tokens"] == [3 * 16 * (2 if "bptt" in config.read_text() else 1)] * 4
        shutil.copytree(whole / "checkpoint-3", resumed / "checkpoint-3")
        train(config, text, resumed, *flags, "--resume-from-checkpoint", "last").passes()
        assert (whole / "model.safetensors").read_bytes() == (resumed / "model.safetensors").read_bytes()
        shutil.rmtree(resumed)
        shutil.copytree(whole / "checkpoint-3", resumed / "checkpoint-3")
        (resumed / "checkpoint-3" / "state.json").unlink()
        train(config, text, resumed, *flags, "--resume-from-checkpoint", "last").passes()
        assert (whole / "model.safetensors").read_bytes() != (resumed / "model.safetensors").read_bytes()

    def test_layers_that_are_computed_again_give_the_same_bits(self, config, text, tmp_path):
        """Memories move once, and compressions learn what they would have learned, over full memories."""
        weights = []
        for name, flags in (("kept", []), ("again", ["--gradient-checkpointing"])):
            train(config, text, tmp_path / name, "--max-steps", 6, "--length", 16, "--learning-rate", 1e-2, *flags).passes()
            weights.append((tmp_path / name / "model.safetensors").read_bytes())
        assert weights[0] == weights[1]

    @pytest.mark.parametrize("config", ["recurrent", "compressive"], indirect=True)
    def test_phases_change_lengths_and_updates(self, config, text, tmp_path):
        phases = [
            {"length": 8, "memory_length": 8, "learning_rate": 1e-2, "batch": 4, "steps": 5},
            {"length": 16, "memory_length": 32, "learning_rate": 1e-2, "batch": 16, "steps": 5},
        ]
        file = written(tmp_path / "phases.json", phases)
        out = tmp_path / "out"
        done = run("pretrain-lm", "--config", config, text, "--phases", file, "--output-dir", out,
                   "--per-device-train-batch-size", 4, "--logging-steps", 1).passes()  # fmt: skip
        assert "10 steps" in done.err
        phases[1]["windows"] = [4, 4]
        written(file, phases)
        run("pretrain-lm", "--config", config, text, "--phases", file, "--output-dir", out,
            "--overwrite-output-dir").fails(1, "phase 2", "memory_length", '"windows"')  # fmt: skip

    @pytest.mark.parametrize("config", ["recurrent", "compressive"], indirect=True)
    def test_bad_input(self, config, text, tmp_path):
        out = tmp_path / "out"
        train(config, text, out, "--length", 100000).fails(1, "text.txt", "longer than")
        for changes, wanted in [
            ({"attention": "none"}, ["attention", "window, dense, recurrent, compressive, performer", '"none"']),
            ({"attention": "recurrent", "compression_rate": 0, "segment_length": 0}, ["segment_length", "1"]),
            ({"attention": "compressive", "compression_rate": 0}, ["compression_rate"]),
            ({"attention": "compressive", "same_length": True}, ["same_length", "recurrent", "compressive"]),
            ({"attention": "compressive", "compression": "min"}, ["compression", "convolution, mean, max, dilated"]),
            ({"attention": "compressive", "compression_loss": "bprop"}, ["compression_loss", "autoencoding", "bptt", "bprop"]),
            ({"attention": "compressive", "compression_loss": "bptt", "compression": "mean"}, ["bptt", "mean", "no weights"]),
            ({"attention": "compressive", "compression_loss": "bptt", "unroll_segments": 1}, ["unroll_segments", "2"]),
            ({"attention": "compressive", "unroll_segments": 2}, ["unroll_segments", "1"]),
            ({"attention": "compressive", "compression": "mean", "compression_loss": "autoencoding"}, ["convolution"]),
            ({"attention": "compressive", "compression": "dilated", "dilation_rates": [0]}, ["dilation_rates"]),
            ({"attention": "recurrent", "positions": "learned"}, ["positions", "relative"]),
            ({"attention": "performer", "positions": "relative"}, ["positions", "sinusoidal", "performer"]),
            ({"attention": "performer", "features": 0}, ["features", "1 or more", "softmax"]),
            ({"attention": "performer", "features": -1}, ["features"]),
            ({"attention": "performer", "feature_epsilon": 1e-4}, ["feature_epsilon", "0", "language model"]),
            ({"attention": "performer", "feature_kernel": "sigmoid"}, ["feature_kernel", "softmax, hyperbolic"]),
            ({"attention": "recurrent", "norm_position": "both"}, ["norm_position", "pre, post"]),
        ]:
            file = written(tmp_path / "bad.json", CONFIG | changes)
            train(file, text, out).fails(1, "bad.json", *wanted)


class TestUse:
    def test_a_longer_memory_in_evaluation(self, text):
        model = FIXTURE / "recurrent"
        usual = score(model, text, "--characters", 200)["metrics"]["loss"]
        assert usual == score(model, text, "--characters", 200, "--memory-length", 7)["metrics"]["loss"]
        longer = score(model, text, "--characters", 200, "--memory-length", 300)["metrics"]["loss"]
        whole = score(model, text, "--characters", 200, "--segment-length", 200)["metrics"]["loss"]
        assert math.isclose(longer, whole, rel_tol=1e-5) and not math.isclose(longer, usual, rel_tol=1e-4)
        run("evaluate", model, text, "--compressed-memory-length", 3).fails(1, "compressed_memory_length", "compressive")
        run("evaluate", model, text, "--memory-length", 0, "--same-length").fails(1, "same_length")
        run("evaluate", FIXTURES / "character_lm" / "tied", text, "--memory-length", 3).fails(1, "attention window")
        compressive = FIXTURE / "compressive"
        run("evaluate", compressive, text, "--characters", 100, "--compressed-memory-length", 9).works()

    @pytest.mark.parametrize("name, flags", [
        ("dense_learned", ["--window-characters", 16, "--step-characters", 5]), ("recurrent", []), ("compressive", []),
        ("performer_softmax", ["--streaming"])])  # fmt: skip
    def test_loss_of_every_character(self, name, flags, text, tmp_path):
        file = tmp_path / "losses.jsonl"
        whole = score(FIXTURE / name, text, "--characters", 103, *flags, "--losses", file)
        losses = [json.loads(line) for line in file.read_text().splitlines()]
        assert len(losses) == whole["characters"] == 103
        assert [row["bytes"] for row in losses] == [len(character.encode()) for character in text.read_text()[1:104]]
        assert math.isclose(sum(row["loss"] for row in losses) / 103, whole["metrics"]["loss"], rel_tol=1e-6)
        # The losses of the first characters do not depend on the rest of the text.
        for count in (1, 5, 40):
            first = score(FIXTURE / name, text, "--characters", count, *flags)["metrics"]["loss"]
            assert math.isclose(sum(row["loss"] for row in losses[:count]) / count, first, rel_tol=1e-5)
        run("evaluate", FIXTURE / name, text, "--losses", tmp_path / "none" / "file").fails(1, "none")

    def test_generate(self, tmp_path):
        for name in ("recurrent", "compressive", "compressive_max", "performer_relu", "recurrent_infused"):
            draws = [run("generate", FIXTURE / name, "--prompt", "the quick ", "-n", 40, "--seed", seed).works().out
                     for seed in (1, 1, 2)]  # fmt: skip
            assert draws[0] == draws[1] != draws[2] and len(draws[0].rstrip("\n")) >= 40

    def test_learned_positions_end(self, text):
        model = FIXTURE / "dense_learned"
        run("generate", model, "--prompt", "a", "-n", 40).fails(2, "20 positions")
        run("evaluate", model, text, "--streaming").fails(1, "20", "learned positions")
        score(model, text, "--characters", 100)

    def test_a_performer_keeps_the_same_state(self):
        info = run("info", FIXTURE / "performer_softmax", "--json").works().json[0]
        # Two layers of 3 heads: 7 features, with maxima and counts by 16 numbers, sums of 4.
        assert info["state_bytes"] == 4 * 2 * 3 * (2 * 16 + 7 * 4)
        assert (info["receptive_field"], info["features"]) == (0, "7 orthogonal softmax features")
        assert "all that was read" in run("info", FIXTURE / "performer_softmax").works().out

    def test_info(self):
        info = run("info", FIXTURE / "compressive", "--json").works().json[0]
        weights = tensors(FIXTURE / "compressive" / "model.safetensors")
        assert info["parameters"] == sum(tensor.size for tensor in weights.values())
        assert (info["attention"], info["memory_length"], info["compressed_memory_length"]) == ("compressive", 7, 3)
        # Two layers that see 7 rows, 3 of 2 each, and the 5 before in the segment.
        assert info["receptive_field"] == 2 * (7 + 2 * 3 + 5) and info["state_bytes"] > 0
        assert "3 rows of 2 each" in run("info", FIXTURE / "compressive").works().out

    def test_examples_are_models(self):
        examples = ROOT / "examples" / "language-models"
        others = (examples / f"tiny-{kind}.json" for kind in ("sparse", "reformer", "routing", "binary-partition"))
        for file in (*examples.glob("*-*ive.json"), *others):
            assert "tokens/s" in run("bench", "train", "--config", file, "-n", 512, "-r", 1).works().out
        file = examples / "small-compressive.json"
        run("bench", "train", "--config", file, "-n", 100, "-r", 1).fails(1, "-n", "512")


class TestAttentionShares:
    @pytest.mark.parametrize("config", ["recurrent", "compressive"], indirect=True)
    def test_logged_while_training(self, config, text, tmp_path):
        out = tmp_path / "out"
        flags = ["--attention-shares", "--eval-strategy", "steps", "--eval-steps", 2, "--save-steps", 4]
        train(config, text, out, "--max-steps", 4, *flags).passes()
        train(config, text, out, "--max-steps", 8, *flags, "--resume-from-checkpoint", "last").passes()
        log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        points = [row for row in log if "eval_bpc" in row]
        assert [row["step"] for row in points] == [2, 4, 6, 8]
        ages = [f"{kind}_p{age}" for kind in ("cm", "em", "seq") for age in range(6)]
        for prefix in ("eval_", "eval_layer_0_", "eval_layer_1_"):
            assert all(math.isclose(sum(row[prefix + age] for age in ages), 1, rel_tol=1e-5) for row in points)
        compressive = '"compressive"' in config.read_text() and "bptt" not in config.read_text()
        assert (points[-1]["eval_cm_p5"] > 0) == compressive

        found = score(out, text, "--part", "validation", "--attention-shares")
        layers = found["attention_shares"]
        assert [layer["layer"] for layer in layers] == [0, 1]
        assert math.isclose(layers[1]["memory"][2], points[-1]["eval_layer_1_em_p2"], rel_tol=1e-4)
        shown = run("evaluate", out, text, "--attention-shares").passes().out
        assert "attention goes to" in shown and "layer 1" in shown

    @pytest.mark.parametrize("config", ["dense", "recurrent"], indirect=True)
    def test_refusals(self, config, text, tmp_path):
        out = tmp_path / "out"
        train(config, text, out, "--max-steps", 1, "--length", 16).passes()
        if '"dense"' in config.read_text():
            run("evaluate", out, text, "--attention-shares").fails(2, "memories", "dense")
            train(config, text, tmp_path / "new", "--attention-shares", "--eval-strategy", "epoch").fails(2, "memories")
            return
        run("evaluate", out, text, "--attention-shares", "--characters", 10).fails(2, "fills the memories")
        run("evaluate", out, text, "--shares-picture", tmp_path / "s.svg").fails(
            2, "--shares-picture: the program draws no pictures: use longformer_cpp.plot.attention_shares")
        train(config, text, tmp_path / "new", "--attention-shares").fails(2, "eval_strategy")
        train(config, text, tmp_path / "new", "--attention-shares", "--eval-strategy", "epoch", "--eval-characters",
              20).fails(2, "fill the memories", "20")  # fmt: skip
