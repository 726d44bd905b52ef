"""Copies of the tiny models that are wide enough for several threads to share each product."""

import json
import math
import shutil

import numpy as np

#: Numbers that mean a width in the tiny models of tests/fixtures, and four times as wide.
WIDTHS = {16: 64, 20: 80, 24: 96}
KEYS = ("hidden_size", "d_model", "intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim")


def wide_model(source, target, tokenizer=None):
    """A wide copy of a tiny model folder with weights drawn anew; `tokenizer` is where its vocabulary is from."""
    shutil.copytree(source, target)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config.update({key: WIDTHS[config[key]] for key in KEYS if key in config})
    # No dropout: what is learned must not depend on how threads share the rows.
    config.update({key: 0.0 for key in config if "dropout" in key and isinstance(config[key], float)})
    (target / "config.json").write_text(json.dumps(config), encoding="utf-8")
    data = (source / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, parts, position = json.loads(data[8 : 8 + size]), [], 0
    header.pop("__metadata__", None)
    random = np.random.default_rng(1)
    for name, entry in sorted(header.items()):
        shape = [WIDTHS.get(length, length) for length in entry["shape"]]
        if "embed" in name and len(shape) == 2:
            # A row for each token, type or place.
            shape[0] = entry["shape"][0]
        is_norm = len(shape) == 1 and name.endswith("weight")
        values = np.ones(shape) if is_norm else random.standard_normal(shape) * 0.2
        entry.update(shape=shape, dtype="F32", data_offsets=[position, position + 4 * math.prod(shape)])
        parts.append(values.astype(np.float32).tobytes())
        position = entry["data_offsets"][1]
    text = json.dumps(header).encode()
    (target / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))
    for name in ("vocab.json", "merges.txt") if tokenizer else ():
        shutil.copy(tokenizer / name, target)
    return target
