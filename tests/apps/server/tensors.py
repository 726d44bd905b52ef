"""Checkpoints of tests with other tensors."""

import json


def rewrite_tensors(source, target, change):
    """Writes model.safetensors of one folder into another: change(name, shape, data) gives shape and data."""
    data = (source / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, body, parts, place = json.loads(data[8 : 8 + size]), data[8 + size :], [], 0
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        entry["shape"], part = change(name, entry["shape"], body[begin:end])
        entry["data_offsets"] = [place, place + len(part)]
        place += len(part)
        parts.append(part)
    head = json.dumps(header).encode()
    (target / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + b"".join(parts))


def keep_one_class(source, target):
    """A cross-encoder of a classifier: its head keeps the weights of the first class. Only weights and config.json."""

    def change(name, shape, data):
        if not name.startswith("classifier.out_proj."):
            return shape, data
        return [1, *shape[1:]], data[: len(data) // shape[0]]

    rewrite_tensors(source, target, change)
    config = json.loads((source / "config.json").read_text())
    config.update(id2label={"0": "relevant"}, label2id={"relevant": 0})
    (target / "config.json").write_text(json.dumps(config))
