"""pretrain-lm, evaluate, generate and info on language models with other patterns of attention: Sparse Transformers,
heads that learn their spans, clusters of tokens, and trees of spans."""

import json
import math
import shutil

import pytest
from cli_character_lm_test import TEXT, score, tensors, written
from cli_test import FIXTURES, run

CONFIG = {"model_type": "longformer-lm", "vocabulary": "text8", "hidden_size": 32, "num_hidden_layers": 2,
          "num_attention_heads": 4, "dropout": 0.1}  # fmt: skip
SPARSE = {"attention": "sparse", "stride": 6, "max_position_embeddings": 24}
KINDS = {
    "strided": SPARSE | {"pattern": "strided", "integration": "heads"},
    "fixed": SPARSE | {"pattern": "fixed", "summary": 2},
    "tree": {"attention": "binary_partition", "tree_neighbors": 3, "tree_levels": 4},
    "adaptive": {"attention": "adaptive", "max_span": 24, "span_ramp": 8, "span_loss": 1e-3},
    "routing": {"attention": "routing", "clusters": 3, "local_window": 8, "commitment_loss": 1e-2},
}
#: The optimizer of the paper of adaptive spans.
ADAGRAD = ["--optim", "adagrad", "--adagrad-clip", 0.03, "--max-grad-norm", 0, "--weight-decay", 0]
FIXTURE = FIXTURES / "pattern_lm"


@pytest.fixture
def text(tmp_path):
    return written(tmp_path / "text.txt", TEXT * 60)


@pytest.fixture(params=KINDS)
def config(request, tmp_path):
    return written(tmp_path / "config.json", CONFIG | KINDS[request.param])


def train(config, text, output, *flags):
    return run("pretrain-lm", "--config", config, text, "--output-dir", output, "--threads", 1,
               "--per-device-train-batch-size", 4, *flags)  # fmt: skip


class TestTraining:
    def test_loss_falls_and_the_folder_is_a_model(self, config, text, tmp_path):
        out = tmp_path / "out"
        train(config, text, out, "--max-steps", 150, "--learning-rate", 1e-2, "--length", 24, "--logging-steps", 50,
              "--eval-strategy", "steps", "--eval-steps", 75).passes()  # fmt: skip
        log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        losses = [row["loss"] for row in log if "loss" in row]
        assert losses[0] > losses[-1] + 0.5 and losses[-1] < 0.7 * math.log(27)
        last = [row for row in log if "eval_bpc" in row][-1]
        is_adaptive = "adaptive" in config.read_text()
        # Windows are as long as the texts that trained it, where a model sees everything.
        here = score(out, text, "--part", "validation", *(["--streaming"] if is_adaptive else []))["metrics"]
        assert math.isclose(here["bpc"], last["eval_bpc"], rel_tol=1e-5) and "compression_loss" not in here
        assert ("eval_mean_span" in last) == is_adaptive
        count = 10 if "stride" in config.read_text() else 60
        assert len(run("generate", out, "--prompt", "the ", "-n", count, "--seed", 1).works().out) > 4

    def test_resumed_and_computed_again_it_ends_with_the_same_bits(self, config, text, tmp_path):
        whole, resumed, again = tmp_path / "whole", tmp_path / "resumed", tmp_path / "again"
        flags = ["--max-steps", 6, "--save-steps", 3, "--length", 24, "--learning-rate", 1e-2]
        if "adaptive" in config.read_text():
            flags += ADAGRAD
        train(config, text, whole, *flags).passes()
        shutil.copytree(whole / "checkpoint-3", resumed / "checkpoint-3")
        train(config, text, resumed, *flags, "--resume-from-checkpoint", "last").passes()
        train(config, text, again, *flags, "--gradient-checkpointing").passes()
        wanted = (whole / "model.safetensors").read_bytes()
        assert [(folder / "model.safetensors").read_bytes() == wanted for folder in (resumed, again)] == [True, True]

    @pytest.mark.parametrize("config", ["adaptive"], indirect=True)
    def test_spans_stay_within_0_and_1_and_a_cost_shortens_them(self, config, text, tmp_path):
        means = []
        for cost in (0, 1):
            changed = json.loads(config.read_text()) | {"span_loss": cost, "initial_span": 0.5}
            file, out = written(tmp_path / f"{cost}.json", changed), tmp_path / str(cost)
            # A limit of the step would let a cost of this size hardly move.
            free = ["--optim", "adagrad", "--max-grad-norm", 0, "--weight-decay", 0]
            train(file, text, out, "--max-steps", 30, "--length", 24, "--learning-rate", 0.07, *free).passes()
            weights = tensors(out / "model.safetensors")
            spans = [value for name, value in weights.items() if name.endswith(".spans")]
            assert len(spans) == 2 and all((0 <= one).all() and (one <= 1).all() for one in spans)
            means.append(sum(one.mean() for one in spans) / 2)
            info = run("info", out, "--json").works().json[0]
            assert [[round(z * 24, 3) for z in layer] for layer in spans] == [[round(x, 3) for x in layer] for layer in info["spans"]]
        assert means[1] < 0.05 < means[0]

    @pytest.mark.parametrize("config", ["fixed"], indirect=True)
    def test_adagrad_clip_needs_adagrad(self, config, text, tmp_path):
        train(config, text, tmp_path / "out", "--adagrad-clip", 0.03).fails(2, "--adagrad-clip", "adamw", "0.03")

    @pytest.mark.parametrize("config", ["fixed"], indirect=True)
    def test_bad_input(self, config, text, tmp_path):
        out = tmp_path / "out"
        train(config, text, out, "--length", 30).fails(2, "--length", "24 tokens", "30")
        fixed, adaptive, tree = KINDS["fixed"], KINDS["adaptive"], KINDS["tree"]
        for changes, wanted in [
            (fixed | {"pattern": "random"}, ["pattern", "strided, fixed", '"random"']),
            (fixed | {"stride": 1}, ["stride", "2", "1"]),
            (fixed | {"summary": 7}, ["summary", "stride of 6", "7"]),
            (fixed | {"max_position_embeddings": 20}, ["max_position_embeddings", "multiple", "6", "20"]),
            (fixed | {"dilations": [0, 5]}, ["dilations", "pattern fixed"]),
            (fixed | {"positions": "relative"}, ["positions", "grid", "relative"]),
            (fixed | {"integration": "sum"}, ["integration", "heads, interleaved, merged"]),
            (adaptive | {"span_ramp": 25}, ["span_ramp", "24", "25"]),
            (adaptive | {"windows": [3, 3]}, ["windows", "adaptive"]),
            (adaptive | {"positions": "relative"}, ["positions", "distance_keys", "relative"]),
            (tree | {"tree_neighbors": 0}, ["tree_neighbors", "65536", "0"]),
            (tree | {"tree_levels": 26}, ["tree_levels", "25", "26"]),
            (tree | {"windows": [3, 3]}, ["windows", "binary_partition"]),
            (tree | {"positions": "relative"}, ["positions", "tree_keys", "relative"]),
        ]:
            file = written(tmp_path / "bad.json", CONFIG | changes)
            train(file, text, out).fails(1, "bad.json", *wanted)


class TestUse:
    @pytest.mark.parametrize("name", ["strided_merged", "fixed_merged", "adaptive", "routing", "tree"])
    def test_windows_and_streaming_score_alike(self, name, text):
        """A text that fits has the same losses; longer ones are read in windows, as learned positions end."""
        windows = score(FIXTURE / name, text, "--characters", 59, "--window-characters", 60, "--step-characters", 60)
        assert math.isclose(windows["metrics"]["loss"],
                            score(FIXTURE / name, text, "--characters", 59, "--streaming")["metrics"]["loss"], rel_tol=1e-5)  # fmt: skip
        if "merged" in name:
            run("evaluate", FIXTURE / name, text, "--streaming").fails(1, "60", "grid positions")
        score(FIXTURE / name, text, "--characters", 200)

    def test_info(self):
        info = run("info", FIXTURE / "fixed_merged", "--json").works().json[0]
        assert info["attention"] == "sparse" and info["positions"] == "grid" and info["receptive_field"] == 0
        assert "5 tokens" in info["pattern"] and "2 tokens" in info["pattern"] and "one softmax" in info["pattern"]
        weights = tensors(FIXTURE / "fixed_merged" / "model.safetensors")
        assert info["parameters"] == sum(tensor.size for tensor in weights.values())
        assert "strided: the last 5 tokens" in run("info", FIXTURE / "strided_heads").works().out

    def test_info_shows_clusters(self):
        info = run("info", FIXTURE / "routing", "--json").works().json[0]
        assert info["attention"] == "routing" and info["receptive_field"] == 0
        assert info["pattern"] == "5 clusters of 1/5 of the text in 2 heads, the last 6 tokens in 1"
        weights = tensors(FIXTURE / "routing" / "model.safetensors")
        assert info["parameters"] == sum(tensor.size for tensor in weights.values())

    def test_scores_of_clusters_do_not_tell_of_what_comes(self, tmp_path):
        """Text behind another changes no loss of it."""
        found = []
        for name, more in (("short", ""), ("long", "quite another end of the text")):
            file = written(tmp_path / f"{name}.txt", TEXT[:49] + more)
            losses = tmp_path / f"{name}.jsonl"
            score(FIXTURE / "routing", file, "--part", "all", "--window-characters", 24, "--step-characters", 12, "--losses", losses)
            found.append([json.loads(line)["loss"] for line in losses.read_text().splitlines()])
        assert len(found[0]) == 48 and len(found[1]) > 70
        assert found[0] == pytest.approx(found[1][:48], abs=1e-5)

    def test_a_text_that_goes_on_is_what_a_whole_one_is(self):
        """The choice of every character is that after reading all before it at once."""
        def written_behind(prompt, count):
            return run("generate", FIXTURE / "tree", "--prompt", prompt, "-n", count, "--temperature", 0).works().out[:count]

        prompt = "the quick brown "
        longer = written_behind(prompt, 40)
        assert len(longer) == 40
        for count in (1, 9, 30):
            assert written_behind(prompt + longer[:count], 40 - count) == longer[count:]

    def test_info_of_a_tree(self):
        info = run("info", FIXTURE / "tree", "--json").works().json[0]
        assert (info["attention"], info["positions"], info["receptive_field"]) == ("binary_partition", "tree_keys", 0)
        weights = tensors(FIXTURE / "tree" / "model.safetensors")
        assert info["parameters"] == sum(tensor.size for tensor in weights.values())
        assert "the 2 spans before a token" in info["pattern"]

    def test_info_shows_spans(self):
        info = run("info", FIXTURE / "adaptive", "--json").works().json[0]
        weights = tensors(FIXTURE / "adaptive" / "model.safetensors")
        reaches = []
        for layer, spans in enumerate(info["spans"]):
            z = weights[f"layers.{layer}.spans"]
            assert [round(x, 3) for x in spans] == [round(float(x) * 21, 3) for x in z]
            reaches.append(min(21, math.ceil(float(z.max()) * 21 + 6)))
        assert (info["max_span"], info["span_ramp"], info["receptive_field"]) == (21, 6, sum(reaches))
        out = run("info", FIXTURE / "adaptive").works().out
        assert "spans of layer 1" in out and "21, and a ramp of 6" in out
