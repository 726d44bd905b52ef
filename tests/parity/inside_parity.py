"""Probabilities of attention, and adapters of the package peft, in all families of encoders that `transformers` has.

    python3 tests/parity/inside_parity.py PROGRAM [--count 96] [--seed 3] [--only INDEX,…] [--families modernbert,classic,…]

Cases of modern_models.py, and BERT and its kin of random_models.py (`classic`), with every head but choices, in fp32.
Models without head: `attentions` of all layers and heads, rows of visible tokens, against `output_attentions` of the eager
attention of `transformers`. All models: an adapter that peft draws for all dense layers, read by ours and merged by `convert`;
hidden states of all layers and logits against peft, and of `transformers` with the merged folder. `transformers` also runs
in double precision; its own rounding is not held against us. Exit code 1 when a difference is too large; a NaN is.
"""

import argparse
import collections
import pathlib
import subprocess
import sys
import tempfile
import time

import head_parity
import longformer_cpp
import model_parity
import modern_models
import numpy
import peft
import random_models
import torch
import transformers

# `transformers` has no class for some.
MODERN = [name for name in modern_models.RUN if name not in ("jina_v2", "neobert")]
CLASSIC_MODELS = tuple(name for name in head_parity.MODELS if name != "Longformer")
CLASSIC = tuple(
    f"{model}{ending}"
    for model in CLASSIC_MODELS
    for ending in ("Model", "ForMaskedLM", *(f"For{head}" for head in head_parity.HEADS[:3]))
)
# n² probabilities of all heads and layers are a lot for the oracle.
MOST_TOKENS = 333
ATTENTION_TOLERANCE = 1e-5
# Rounding of `transformers` counts so often: what is added in parts there is one matrix here.
ROUNDING = 4
SETTINGS = ({}, {"use_rslora": True}, {"lora_bias": True}, {"bias": "lora_only"})
SHORTEST_RUN_FOR_COVERAGE = 96
OF_DOCUMENTS = "SequenceClassification"
OUTPUTS = ("logits", "start_logits", "end_logits")


# ---------------------------------------------------------------- cases


def is_classic(case):
    return not isinstance(case, modern_models.Case)


def parts_of(case):
    """Name of the model, and of its head: ("ModernBert", "MaskedLM")."""
    model, _, head = case.class_name.partition("For")
    return model.removesuffix("Model"), head


def draw(index, decks, families):
    modern = [name for name in families if name != "classic"]
    kinds = [*(["classic"] if "classic" in families else []), *(["modern"] * 2 if modern else [])]
    if decks.deal("kind", tuple(kinds)) == "modern":
        case = modern_models.draw(index, decks, modern)
    else:
        case = random_models.draw_case(index, decks, families=CLASSIC)
        case.config["num_labels"] = decks.deal("labels of classic models", (2, 3, 9))
        if "QuestionAnswering" in case.family:
            case.config["num_labels"] = 2
    case.storage = "float32"
    case.settings_of_adapter = decks.deal("adapter", SETTINGS)
    return case


def build(case, folder, seed):
    (random_models if is_classic(case) else modern_models).build(case, folder, seed)


def load(case, folder, dtype, attention="sdpa"):
    if not is_classic(case):
        return modern_models.load(case, folder, dtype, attention)
    model = random_models.load(case, folder, torch.float32).to(dtype)
    model.set_attn_implementation(attention)
    return model


def arguments_of(case):
    if case.ragged:
        return random_models.ragged(case.documents)
    return {key: value.numpy() for key, value in random_models.padded(case).items()}


# ---------------------------------------------------------------- attention


def seen_rows(case, layers):
    """[heads, visible rows, tokens] of each layer and document."""
    found = []
    for layer in layers:
        for probabilities, document in zip(layer, case.documents, strict=True):
            n = len(document.ids)
            found.append(numpy.asarray(probabilities, float)[:, :n, :n][:, document.seen()])
    return found


def their_attentions(case, folder, dtype):
    model = load(case, folder, dtype, "eager")
    with torch.inference_mode(), modern_models.double_precision():
        out = model(**random_models.padded(case), output_attentions=True)
    return seen_rows(case, [layer.double().numpy() for layer in out.attentions])


def is_causal(case):
    decoder = not is_classic(case) and case.model_type in ("qwen3", "gemma3_text")
    return decoder and not case.config.get("use_bidirectional_attention")


def unrolled(band, n, window, left):
    """[heads, n, n] of columns that are neighbours, from `left` tokens before on."""
    if not window:
        return band
    wide = numpy.zeros((band.shape[0], n, n))
    for row in range(n):
        low, high = max(0, row - left), min(n, row - left + window + 1)
        begin = low - row + left
        wide[:, row, low:high] = band[:, row, begin : begin + high - low]
    return wide


def our_attentions(case, model):
    out = model(**arguments_of(case), output_attentions=True)
    windows = model._native.windows or [0] * len(out.attentions)
    layers = []
    for layer, window in zip(out.attentions, windows, strict=True):
        left = window if is_causal(case) else window // 2
        pairs = zip(layer, case.documents, strict=True)
        layers.append([unrolled(numpy.asarray(p, float), len(d.ids), window, left) for p, d in pairs])
    return seen_rows(case, layers)


def compare_attentions(table, case, folder):
    fp32, double = (their_attentions(case, folder, dtype) for dtype in (torch.float32, torch.float64))
    rounding = model_parity.largest_difference(fp32, double)
    row = f"{parts_of(case)[0]}: attentions"
    table.record((row, model_parity.THEIR_ROUNDING), case, rounding, numpy.inf)
    found = our_attentions(case, longformer_cpp.load(folder))
    tolerance = ATTENTION_TOLERANCE + 2 * rounding
    table.compare((row, model_parity.OURS_TO_FP32), case, found, fp32, tolerance + rounding)
    table.compare((row, model_parity.OURS_TO_DOUBLE), case, found, double, tolerance)


# ---------------------------------------------------------------- adapters


def values_of(case, states, output):
    """Hidden states of visible tokens of all layers, and outputs of the head, as lists of arrays."""
    seen = [document.seen() for document in case.documents]

    def rows(batch):
        return [numpy.asarray(part, float)[: len(s)][s] for part, s in zip(batch, seen, strict=True)]

    values = {"hidden states": [part for layer in states for part in rows(layer)]}
    for name in OUTPUTS:
        value = getattr(output, name, None)
        if value is None:
            continue
        if parts_of(case)[1] == OF_DOCUMENTS:
            value = [numpy.asarray(one, float) for one, s in zip(value, seen, strict=True) if s[0]]
        else:
            value = rows(value)
        values["logits"] = values.get("logits", []) + value
    return values


def run_theirs(case, model):
    with torch.inference_mode(), modern_models.double_precision():
        out = model(**random_models.padded(case), output_hidden_states=True)
    return values_of(case, out.hidden_states, out)


def run_ours(case, model):
    out = model(**arguments_of(case), output_hidden_states=True)
    return values_of(case, out.hidden_states, out)


def make_adapter(case, folder, adapter):
    """Random parts for all dense layers, those of heads too, and random biases."""
    torch.manual_seed(case.index)
    model, settings = load(case, folder, torch.float32), case.settings_of_adapter
    has_biases = all(m.bias is not None for m in model.modules() if isinstance(m, torch.nn.Linear))
    if "lora_bias" in settings and not has_biases:
        # peft cannot merge it, and ours refuses it.
        settings = {}
    config = peft.LoraConfig(r=3, lora_alpha=2, target_modules="all-linear", init_lora_weights=False, **settings)
    model = peft.get_peft_model(model, config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and name.endswith("bias"):
                parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(adapter)


def compare_adapters(table, case, folder, program):
    adapter, merged = pathlib.Path(folder, "adapter"), pathlib.Path(folder, "merged")
    make_adapter(case, folder, adapter)

    def theirs(dtype):
        base = load(case, folder, torch.float32)
        return run_theirs(case, peft.PeftModel.from_pretrained(base, adapter).to(dtype).eval().base_model)

    fp32, double = theirs(torch.float32), theirs(torch.float64)
    done = subprocess.run([program, "convert", folder, merged, "--merge-adapter", adapter], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"convert: {done.stderr.strip()}")
    found = {
        "adapter": run_ours(case, longformer_cpp.load(folder, adapter=adapter)),
        "merged by convert": run_ours(case, longformer_cpp.load(merged)),
        "merged by convert, run by transformers": run_theirs(case, load(case, merged, torch.float64)),
    }
    for name, exact in double.items():
        rounding = model_parity.largest_difference(fp32[name], exact)
        tolerance = max(model_parity.FP32_TOLERANCE, ROUNDING * rounding)
        row = f"{parts_of(case)[0]}: {name} with an adapter"
        table.record((row, model_parity.THEIR_ROUNDING), case, rounding, numpy.inf)
        ours = found["adapter"][name]
        table.compare((row, model_parity.OURS_TO_FP32), case, ours, fp32[name], tolerance + rounding)
        table.compare((row, model_parity.OURS_TO_DOUBLE), case, ours, exact, tolerance)
        for way in list(found)[1:]:
            table.compare(f"{way}: {name}", case, found[way][name], exact, tolerance)


def run_case(table, case, program, seed):
    with tempfile.TemporaryDirectory() as folder:
        build(case, folder, seed)
        if not parts_of(case)[1]:
            compare_attentions(table, case, folder)
        compare_adapters(table, case, folder, program)


def require_coverage(cases, families):
    """A run of full size must have met every class, and every model with each kind of adapter."""
    classes = collections.Counter(case.family for case in cases)
    wanted = [f for name in families if name != "classic" for f in modern_models.FAMILIES[name]]
    missing = sorted(set(wanted + list(CLASSIC if "classic" in families else ())) - set(classes))
    if missing:
        sys.exit(f"inside_parity: the drawn cases lack {', '.join(missing)}")


def families_of(text):
    names, known = text.split(","), [*MODERN, "classic"]
    if not set(names) <= set(known):
        raise argparse.ArgumentTypeError(f"expected some of {','.join(known)}, found {text}")
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=96)
    parser.add_argument("--seed", type=int, default=3)
    random_models.add_only(parser)
    parser.add_argument("--families", type=families_of, default=[*MODERN, "classic"])
    options = random_models.parse_quietly(parser)
    random_models.MOST_TOKENS_DENSE = MOST_TOKENS
    for name, classes in modern_models.FAMILIES.items():
        modern_models.FAMILIES[name] = tuple(one for one in classes if "MultipleChoice" not in one)
    decks, table, begin = random_models.Decks(options.seed), model_parity.Table(), time.monotonic()
    cases = [draw(i, decks, options.families) for i in range(options.count)]
    if options.count >= SHORTEST_RUN_FOR_COVERAGE:
        require_coverage(cases, options.families)
    table.run(cases, options.only, lambda case: run_case(table, case, options.program, options.seed * 100_003 + case.index))
    table.print()
    versions = f"transformers {transformers.__version__}, peft {peft.__version__}"
    return table.end(f"{len(cases)} cases against {versions}, seed {options.seed}", begin)


if __name__ == "__main__":
    sys.exit(main())
