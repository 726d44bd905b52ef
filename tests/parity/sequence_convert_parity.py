#!/usr/bin/env python3
"""Checks `longformer convert` of BARTs and of allenai's own LEDs against `transformers`.

    python3 sequence_convert_parity.py BINARY [--trials 24] [--seed 1]

A BART of random sizes becomes an LED of random length and window, which must load as
LEDForConditionalGeneration with no key missing or unexpected, give the logits of the BART for documents
of at most window / 2 + 1 tokens and, where every token is global, for those of any length that BART
takes, keep its dtypes, and generate the same texts. An LED that is saved as allenai's code saves it (a
BART with windows of one side and two rows before the positions, which hold NaN) must become the LED
again.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file

TOLERANCE = 2e-5


def sizes(rng):
    heads = rng.choice([(1, 2), (2, 2), (4, 2), (3, 1)])
    return {
        "vocab_size": rng.choice([20, 61]),
        "d_model": heads[0] * heads[1] * rng.choice([4, 8]),
        "encoder_layers": rng.randint(1, 3),
        "decoder_layers": rng.randint(1, 3),
        "encoder_attention_heads": heads[0],
        "decoder_attention_heads": heads[1],
        "encoder_ffn_dim": rng.choice([9, 32]),
        "decoder_ffn_dim": rng.choice([9, 32]),
        "activation_function": rng.choice(["gelu", "relu", "silu"]),
    }


def redraw(model):
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(0.0, 0.2)
            if "norm" in name and name.endswith("weight"):
                weight.add_(1.0)
        model.final_logits_bias.normal_(0.0, 0.3)
    return model.eval()


def convert(binary, source, target, *flags):
    command = [binary, "convert", str(source), str(target), *map(str, flags)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")


def loaded(folder, dtype=torch.float32):
    model, report = transformers.LEDForConditionalGeneration.from_pretrained(
        folder, output_loading_info=True, dtype=dtype
    )
    wrong = {kind: list(keys) for kind, keys in report.items() if keys}
    assert not wrong, wrong
    return model.eval()


def logits(model, ids, text, globals_=None):
    extra = {} if globals_ is None else {"global_attention_mask": torch.full_like(ids, globals_)}
    with torch.inference_mode():
        return model(input_ids=ids, decoder_input_ids=text, **extra).logits


def drawn(rng, count, vocabulary):
    return torch.tensor([[rng.randrange(vocabulary) for _ in range(count)]])


def check_bart(binary, folder, rng):
    config = transformers.BartConfig(
        max_position_embeddings=rng.choice([40, 64]), scale_embedding=rng.random() < 0.5,
        tie_word_embeddings=rng.random() < 0.7, forced_eos_token_id=None, **sizes(rng))  # fmt: skip
    bart = redraw(transformers.BartForConditionalGeneration(config))
    has_own = rng.random() < 0.5
    if has_own:
        bart.generation_config = transformers.GenerationConfig(
            decoder_start_token_id=2, eos_token_id=2, pad_token_id=1, bos_token_id=0, num_beams=2)  # fmt: skip
    bart.save_pretrained(folder / "bart")
    if not has_own:
        (folder / "bart" / "generation_config.json").unlink()
    window, positions = 2 * rng.randint(2, 12), rng.choice([50, 128, 333])
    convert(binary, folder / "bart", folder / "led", "--window", window, "--max-positions", positions)
    led = loaded(folder / "led")
    assert led.config.max_encoder_position_embeddings == positions
    assert list(led.config.attention_window) == [window] * config.encoder_layers
    text = drawn(rng, rng.randint(1, 9), config.vocab_size)
    short = drawn(rng, rng.randint(1, window // 2 + 1), config.vocab_size)
    long = drawn(rng, rng.randint(2, min(config.max_position_embeddings, positions) - window), config.vocab_size)
    gaps = [(logits(led, short, text) - logits(bart, short, text)).abs().max(),
            (logits(led, long, text, 1) - logits(bart, long, text)).abs().max()]  # fmt: skip
    options = {"max_new_tokens": 8} | ({} if has_own else {"decoder_start_token_id": 2})
    assert led.generate(short, **options).tolist() == bart.generate(short, **options).tolist()
    return max(float(gap) for gap in gaps)


def save_as_allenai(led, folder):
    """The files that scripts/convert_bart_to_longformerencoderdecoder.py of allenai/longformer writes."""
    tensors = {}
    for name, value in led.state_dict().items():
        if name.endswith("embed_positions.weight"):
            value = torch.cat([torch.full_like(value[:2], float("nan")), value])
        if name.startswith("led."):
            name = "model." + name.removeprefix("led.")
        tensors[name] = value.clone()
    folder.mkdir()
    torch.save(tensors, folder / "pytorch_model.bin")
    config = led.config.to_dict()
    config |= {
        "model_type": "bart",
        "architectures": ["LongformerEncoderDecoderForConditionalGeneration"],
        "attention_window": [window // 2 for window in led.config.attention_window],
        "attention_dilation": [1] * led.config.encoder_layers,
        "attention_mode": "sliding_chunks",
        "autoregressive": False,
    }
    (folder / "config.json").write_text(json.dumps(config))


def check_allenai(binary, folder, rng):
    window = 2 * rng.randint(2, 8)
    own = sizes(rng)
    config = transformers.LEDConfig(
        attention_window=[window] * own["encoder_layers"],
        max_encoder_position_embeddings=4 * window, max_decoder_position_embeddings=20, **own)  # fmt: skip
    led = redraw(transformers.LEDForConditionalGeneration(config))
    save_as_allenai(led, folder / "allenai")
    convert(binary, folder / "allenai", folder / "led", "--dtype", "fp32")
    again = loaded(folder / "led")
    ids = drawn(rng, rng.randint(1, 4 * window), own["vocab_size"])
    text = drawn(rng, 5, own["vocab_size"])
    stored = load_file(folder / "led" / "model.safetensors")
    assert all(torch.isfinite(value).all() for value in stored.values())
    return max(float((logits(again, ids, text, g) - logits(led, ids, text, g)).abs().max()) for g in (0, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    largest, failures = 0.0, 0
    for trial in range(options.trials):
        rng = random.Random(options.seed * 1000 + trial)
        torch.manual_seed(trial)
        check = check_allenai if trial % 3 == 2 else check_bart
        with tempfile.TemporaryDirectory() as folder:
            gap = check(options.binary, pathlib.Path(folder), rng)
        largest = max(largest, gap)
        if not gap <= TOLERANCE:
            failures += 1
            print(f"FAIL trial {trial}: {check.__name__}: {gap:.3g}")
    print(f"sequence_convert_parity: {options.trials} trials, largest difference {largest:.2e}, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
