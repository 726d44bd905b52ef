"""Compares with `transformers` what this program adds to ModernBERT and its kin.

    python3 tests/parity/modern_changes_parity.py longformer [--count 12] [--seed 1]

- Global tokens: `transformers` has none, but its layers with windows take any mask. Here the mask opens the rows and
  columns of global tokens; hidden states, the loss and every gradient are compared.
- `convert --max-positions` of models with rotary positions, by YaRN and by a larger base: `transformers` loads the
  result, and gives the same hidden states beyond the length of before; of YaRN its frequencies are its own.
Differences are those of a run in double, and may be twice those that `transformers` has in fp32. Exit code 1 when one
is larger; a NaN is.
"""

import argparse
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
from unittest import mock

import numpy
import torch
import transformers
from modern_models import double_precision
from transformers.models.modernbert import modeling_modernbert

import longformer_cpp

TOLERANCE, GRADIENT_TOLERANCE = 1e-4, 1e-3
SIZES = {"hidden_size": 48, "intermediate_size": 56, "num_hidden_layers": 4, "num_attention_heads": 4}
MODERN = SIZES | {
    "vocab_size": 64,
    "pad_token_id": 0,
    "cls_token_id": 1,
    "sep_token_id": 2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "max_position_embeddings": 64,
    "num_labels": 3,
    "attention_dropout": 0.0,
    "embedding_dropout": 0.0,
    "mlp_dropout": 0.0,
    "classifier_dropout": 0.0,
}
BERT = SIZES | {
    "vocab_size": 64,
    "pad_token_id": 0,
    "max_position_embeddings": 64,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


class Differences:
    def __init__(self):
        self.largest, self.count, self.failed = {}, {}, 0

    def add(self, name, found, double, fp32, tolerance):
        scale = max(1.0, float(numpy.abs(double).max()))
        difference = float(numpy.abs(found - double).max()) / scale
        allowed = max(tolerance, 2 * float(numpy.abs(fp32 - double).max()) / scale)
        self.count[name] = self.count.get(name, 0) + 1
        if not difference <= self.largest.get(name, 0.0):
            self.largest[name] = difference
        if not difference <= allowed:
            self.failed += 1
            print(f"FAILED {name}: {difference:.3g} > {allowed:.3g}")

    def end(self):
        print("| what | comparisons | largest difference (smaller is better) |\n|---|---|---|")
        for name, largest in self.largest.items():
            print(f"| {name} | {self.count[name]} | {largest:.2e} |")
        print(f"{sum(self.count.values())} comparisons, {self.failed} failures")
        return 1 if self.failed or not self.count else 0


def draw_weights(model, generator):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = torch.randn(parameter.shape, generator=generator) * 0.15
            parameter.copy_(values + (1 if parameter.ndim == 1 and "norm" in name.lower() else 0))


def save(architecture, config, folder, seed):
    model = getattr(transformers, architecture)(config)
    draw_weights(model, torch.Generator().manual_seed(seed))
    model.save_pretrained(folder)


def load(architecture, folder, dtype):
    return getattr(transformers, architecture).from_pretrained(folder, dtype=dtype, attn_implementation="sdpa").eval()


@contextlib.contextmanager
def windows_with_globals(seen, is_global, reach):
    """The mask of layers with windows: global tokens see, and are seen by, all that is not masked."""
    length = seen.shape[1]
    distance = torch.arange(length)[:, None] - torch.arange(length)[None]
    visible = (distance.abs() <= reach)[None] | is_global[:, None, :] | is_global[:, :, None]
    visible = (visible & seen[:, None, :])[:, None]
    # A query that sees nothing would be NaN.
    visible |= ~seen[:, None, :, None]
    with mock.patch.object(modeling_modernbert, "create_bidirectional_sliding_window_mask", lambda **_: visible):
        yield


def compare_globals(differences, number, generator, root):
    folder = root / f"globals{number}"
    reach = int(generator.integers(1, 9))
    config = transformers.ModernBertConfig(**MODERN, local_attention=2 * reach, global_attn_every_n_layers=3)
    save("ModernBertForTokenClassification", config, folder, number)
    lengths = [int(n) for n in generator.integers(1, 60, 3)]
    longest = max(lengths)
    ids = generator.integers(3, 64, (3, longest))
    seen = numpy.array([[t < n and generator.random() > 0.1 for t in range(longest)] for n in lengths])
    is_global = (generator.random(ids.shape) < 0.15) & seen
    labels = numpy.where(seen, generator.integers(0, 3, ids.shape), -100)
    if not (labels >= 0).any():
        return
    results = {}
    for dtype in (torch.float32, torch.float64):
        model = load("ModernBertForTokenClassification", folder, dtype)
        with double_precision(), windows_with_globals(torch.tensor(seen), torch.tensor(is_global), reach):
            out = model(
                input_ids=torch.tensor(ids),
                attention_mask=torch.tensor(seen).long(),
                labels=torch.tensor(labels),
                output_hidden_states=True,
            )
            out.loss.backward()
        states = [h.detach().double().numpy()[seen] for h in out.hidden_states]
        gradients = {name: p.grad.double().numpy() for name, p in model.named_parameters()}
        results[dtype] = states, out.loss.item(), gradients
    ours = longformer_cpp.load(str(folder))
    masks = {"attention_mask": seen.astype(numpy.int32), "global_attention_mask": is_global.astype(numpy.int32)}
    found = ours(ids.astype(numpy.int32), **masks, output_hidden_states=True)
    for state, double, fp32 in zip(
        found.hidden_states, results[torch.float64][0], results[torch.float32][0], strict=True
    ):
        differences.add("hidden states with global tokens", numpy.asarray(state)[seen], double, fp32, TOLERANCE)
    compare_attentions(differences, ours, load_eager(folder), (ids, seen, is_global, reach))
    loss, gradients = longformer_cpp.loss_and_gradients(ours, ids, labels=labels, **masks)
    _, double_loss, double_gradients = results[torch.float64]
    one = numpy.ones(1)
    differences.add("loss", loss * one, double_loss * one, results[torch.float32][1] * one, TOLERANCE)
    largest = max(float(numpy.abs(g).max()) for g in double_gradients.values())
    for name, double in double_gradients.items():
        bound = max(float(numpy.abs(double).max()), 1e-3 * largest)
        fp32 = results[torch.float32][2][name]
        differences.add("gradients", gradients[name] / bound, double / bound, fp32 / bound, GRADIENT_TOLERANCE)


def load_eager(folder):
    return transformers.ModernBertModel.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def compare_attentions(differences, ours, eager, inputs):
    """Probabilities of every pair, whatever their layout."""
    ids, seen, is_global, reach = inputs
    bias = modeling_modernbert.create_bidirectional_sliding_window_mask
    with torch.inference_mode(), windows_with_globals(torch.tensor(seen), torch.tensor(is_global), reach):
        masked = modeling_modernbert.create_bidirectional_sliding_window_mask
        assert masked is not bias
        visible = masked()
        low = torch.where(visible, 0.0, torch.finfo(torch.float32).min)
        with mock.patch.object(modeling_modernbert, "create_bidirectional_sliding_window_mask", lambda **_: low):
            theirs = eager(
                input_ids=torch.tensor(ids), attention_mask=torch.tensor(seen).long(), output_attentions=True
            ).attentions
    masks = {"attention_mask": seen.astype(numpy.int32), "global_attention_mask": is_global.astype(numpy.int32)}
    found = ours(ids.astype(numpy.int32), **masks, output_attentions=True)
    length = ids.shape[1]
    for layer, expected in enumerate(theirs):
        expected = expected.numpy()
        window = 0 if layer % 3 == 0 else 2 * reach
        for row in range(len(ids)):
            local = numpy.asarray(found.attentions[layer][row])
            pairs = local
            if window:
                positions = numpy.flatnonzero(is_global[row])
                most = local.shape[2] - window - 1
                pairs = numpy.zeros((len(local), length, length))
                for token in range(length):
                    pairs[:, token, positions] += local[:, token, : len(positions)]
                    for s in range(-reach, reach + 1):
                        if 0 <= token + s < length:
                            pairs[:, token, token + s] += local[:, token, most + reach + s]
                if len(positions):
                    of_global = numpy.asarray(found.global_attentions[layer][row])[:, :, : len(positions)]
                    pairs[:, positions] = of_global.transpose(0, 2, 1)
            wanted = expected[row][:, seen[row]]
            differences.add("probabilities with global tokens", pairs[:, seen[row]], wanted, wanted, TOLERANCE)


def sources(number):
    """Architecture and configuration of models that are lengthened."""
    modern = {"local_attention": 8, "global_attn_every_n_layers": 3}
    yarn = {"rope_type": "yarn", "rope_theta": 5000.0, "factor": 2.0, "original_max_position_embeddings": 32}
    plain = {"rope_type": "default", "rope_theta": 10000.0}
    kinds = {"full_attention": yarn, "sliding_attention": plain}
    dynamic = {"rope_type": "dynamic", "rope_theta": 1000.0, "factor": 2.0}
    return [
        ("ModernBertModel", transformers.ModernBertConfig(**MODERN, **modern), ("yarn", "base")),
        ("ModernBertModel", transformers.ModernBertConfig(**MODERN, **modern, rope_parameters=kinds), ("yarn",)),
        ("NomicBertModel", transformers.NomicBertConfig(**BERT, rope_parameters=plain), ("yarn", "base")),
        ("NomicBertModel", transformers.NomicBertConfig(**BERT, rope_parameters=dynamic), ("yarn",)),
        ("GteModel", transformers.GteConfig(**BERT), ("yarn", "base")),
        ("JinaEmbeddingsV3Model", transformers.JinaEmbeddingsV3Config(**BERT), ("yarn", "base")),
    ][number % 6]


def compare_lengthened(differences, number, generator, root, program):
    architecture, config, ways = sources(number)
    source = root / f"source{number}"
    save(architecture, config, source, number)
    for way in ways:
        target = root / f"longer{number}{way}"
        positions = int(generator.integers(65, 300))
        subprocess.run(
            [program, "convert", source, target, "--max-positions", str(positions), "--rotary", way],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        written = json.loads((target / "config.json").read_text())
        if written["max_position_embeddings"] != positions or written["architectures"] != [architecture]:
            sys.exit(f"{target}: unexpected config.json: {written}")
        ids = generator.integers(3, 64, (1, positions))
        states = {}
        for dtype in (torch.float32, torch.float64):
            with torch.inference_mode(), double_precision():
                out = load(architecture, target, dtype)(input_ids=torch.tensor(ids), output_hidden_states=True)
            states[dtype] = [h.double().numpy() for h in out.hidden_states]
        found = longformer_cpp.load(str(target))(ids.astype(numpy.int32), output_hidden_states=True)
        for state, double, fp32 in zip(
            found.hidden_states, states[torch.float64], states[torch.float32], strict=True
        ):
            name = f"hidden states of a longer {architecture} by {way}"
            differences.add(name, numpy.asarray(state), double, fp32, TOLERANCE)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="build/longformer")
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(2)
    generator = numpy.random.default_rng(options.seed)
    differences = Differences()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.count):
            compare_globals(differences, number, generator, pathlib.Path(folder))
            compare_lengthened(differences, number, generator, pathlib.Path(folder), options.program)
    return differences.end()


if __name__ == "__main__":
    sys.exit(main())
