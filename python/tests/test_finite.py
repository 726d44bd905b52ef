"""Every tensor of every family, wholly NaN in its turn: whatever result the tensor has a part in is NaN or an
error, and a warning names the tensor."""

import json
import shutil
import warnings

import numpy as np
import pytest
from conftest import FIXTURES

import longformer_cpp

#: Ids with the separators of the two kinds of questions.
LONG = np.array([*range(5, 11), 2, 2, 3, *range(9, 20)])
#: The NaN of graphics cards: its low bits are not 0.
NAN = np.array([0x7FFFFFFF], np.uint32).view(np.float32)[0]
WRITERS = sorted(f"tiny_{name}" for name in ("led", "bart", "mbart", "pegasus", "pegasus_x", "bigbird_pegasus"))
#: Its head reads marks of facts.
MULTI_HOP = "tiny_longformer_multi_hop"
ENCODERS = [*sorted(path.name for path in FIXTURES.glob("tiny_*") if path.name not in (*WRITERS, MULTI_HOP)),
            *sorted(f"efficient/{path.name}" for path in (FIXTURES / "efficient").iterdir())]  # fmt: skip
LANGUAGE_MODELS = [f"character_lm/{name}" for name in ("tied", "untied")]
LANGUAGE_MODELS += sorted(f"{kind}/{path.name}" for kind in ("memory_lm", "pattern_lm")
                          for path in (FIXTURES / kind).iterdir() if path.name != "transformer_xl")  # fmt: skip


def tensors_of(folder):
    """The floating-point tensors of model.safetensors as views of its bytes."""
    data = bytearray((folder / "model.safetensors").read_bytes())
    size = int.from_bytes(data[:8], "little")
    views = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        views[name] = np.frombuffer(memoryview(data)[begin:end], np.float32)
    return data, views


class Spoiled:
    """A copy of a folder in which one tensor at a time has other numbers."""

    def __init__(self, source, target):
        self.folder = shutil.copytree(source, target)
        self.data, self.views = tensors_of(target)

    def fill(self, tensor, values):
        view = self.views[tensor]
        sound = view.copy()
        view[:] = values
        (self.folder / "model.safetensors").write_bytes(self.data)
        view[:] = sound
        return self.folder

    def other_numbers(self, tensor):
        view = self.views[tensor]
        return self.fill(tensor, view + np.random.default_rng(0).uniform(0.1, 0.3, view.size))


def results_of(outcome):
    """Numbers of a result, or none of an error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            numbers = [np.asarray(values, np.float64) for values in outcome()]
        except longformer_cpp.Error as error:
            return None, str(error), caught
    return numbers, "", caught


def check_family(name, target, outcome):
    sound, error, _ = results_of(lambda: outcome(FIXTURES / name))
    assert sound is not None and all(np.isfinite(values).all() for values in sound), error
    spoiled = Spoiled(FIXTURES / name, target)
    parts = 0
    for tensor in spoiled.views:
        found, error, caught = results_of(lambda: outcome(spoiled.fill(tensor, NAN)))
        if found is not None and not any(np.isnan(values).any() for values in found):
            other, _, _ = results_of(lambda: outcome(spoiled.other_numbers(tensor)))
            has_part = other is None or any(not np.array_equal(a, b) for a, b in zip(other, sound))
            assert not has_part, f"{tensor}: finite numbers"
            continue
        parts += 1
        told = [str(one.message) for one in caught] + [error]
        assert any(tensor in text for text in told if "expected finite weights" in text), (tensor, told)
    assert parts > 5, parts


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_and_its_head(name, tmp_path):
    def outcome(folder):
        model = longformer_cpp.load(folder, threads=1)
        document = LONG[:10] if name.startswith("efficient") else LONG
        ids = [[document], [document[::-1]]] if "choice" in name else [document]
        masks = {}
        if "longformer" in name and not any(kind in name for kind in ("classifier", "qa", "choice")):
            masks["global_attention_mask"] = [np.eye(len(LONG), dtype=int)[0]]
        output = model(ids, **masks)
        keys = ("last_hidden_state", "pooler_output", "logits", "start_logits", "end_logits")
        for value in (getattr(output, key, None) for key in keys):
            if value is not None:
                yield np.concatenate([np.ravel(one) for one in value])

    check_family(name, tmp_path / "model", outcome)


@pytest.mark.parametrize("name", WRITERS)
def test_a_model_that_writes_texts(name, tmp_path):
    def outcome(folder):
        model = longformer_cpp.load(folder, threads=1)
        masks = {"global_attention_mask": [np.eye(len(LONG), dtype=int)[0]]} if name == "tiny_led" else {}
        yield model.text_logits([LONG], [[2, 5, 6, 7]], **masks)[0]
        yield model.generate([LONG], max_new_tokens=3, **masks).sequences

    check_family(name, tmp_path / "model", outcome)


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_a_language_model(name, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("a cat sat on the mat " * 8)

    def outcome(folder):
        model = longformer_cpp.LanguageModel(folder, threads=1)
        yield [model.evaluate(text, part="all").metrics["loss"]]

    check_family(name, tmp_path / "model", outcome)
