"""Models against the numbers of transformers, in every form that input may have."""

import json
import shutil
import threading

import numpy as np
import pytest

import longformer_cpp

FOLDERS = ["tiny_bert", "tiny_roberta", "tiny_longformer", "tiny_longformer_mlm"]
INPUTS = ("input_ids", "attention_mask", "token_type_ids", "global_attention_mask")
TOLERANCE = 1e-5


class OnlyDlpack:
    """A foreign array: it has the protocol and nothing else."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def ragged(cases):
    return {name: [case[name] for case in cases] for name in INPUTS if name in cases[0]}


def padded(cases, dtype=np.int64):
    width = max(len(case["input_ids"]) for case in cases)
    return {
        name: np.stack([np.pad(row, (0, width - len(row))) for row in rows]).astype(dtype)
        for name, rows in ragged(cases).items()
    }


def assert_close(found, expected, seen, tolerance=TOLERANCE):
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    assert np.abs(found - expected)[seen].max() <= tolerance


def assert_matches(output, cases, tolerance=TOLERANCE):
    for i, case in enumerate(cases):
        n = len(case["input_ids"])
        seen = case["attention_mask"] == 1
        assert_close(output.last_hidden_state[i][:n], case["last_hidden_state"], seen, tolerance)
        if "logits" in case:
            assert_close(output.logits[i][:n], case["logits"], seen, tolerance)
        if "pooler_output" in case:
            assert_close(output.pooler_output[i], case["pooler_output"], ..., tolerance)


@pytest.mark.parametrize("name", FOLDERS)
def test_ragged_lists(name, folder, cases):
    model = longformer_cpp.load(folder(name))
    output = model(**ragged(cases(name)))
    assert isinstance(output.last_hidden_state, list)
    assert_matches(output, cases(name))


@pytest.mark.parametrize("name", FOLDERS)
def test_padded_batches(name, folder, cases):
    model = longformer_cpp.load(str(folder(name)))
    output = model(**padded(cases(name)))
    width = max(len(case["input_ids"]) for case in cases(name))
    assert output.last_hidden_state.shape == (3, width, 16)
    assert_matches(output, cases(name))


def test_bf16(folder, cases):
    output = longformer_cpp.load(folder("tiny_longformer"), dtype="bf16")(**ragged(cases("tiny_longformer")))
    assert_matches(output, cases("tiny_longformer"), tolerance=0.1)


def test_device(folder, cases):
    try:
        with pytest.warns(RuntimeWarning, match="is a CPU"):
            model = longformer_cpp.load(folder("tiny_longformer"), device="opencl")
    except longformer_cpp.Error as error:
        if "not installed" in str(error) or "no platform" in str(error):
            pytest.skip("no device of OpenCL (tools/packages.sh opencl)")
        raise
    read = cases("tiny_longformer")
    output = model(**ragged(read))
    for i, case in enumerate(read):
        assert_close(output.last_hidden_state[i], case["last_hidden_state"], case["attention_mask"] == 1, 1e-4)
    with pytest.raises(longformer_cpp.Error, match="device: expected cpu, opencl or opencl:N"):
        longformer_cpp.load(folder("tiny_longformer"), device="cuda")


def test_threads(folder, cases):
    output = longformer_cpp.load(folder("tiny_longformer"), threads=1)(**ragged(cases("tiny_longformer")))
    assert_matches(output, cases("tiny_longformer"))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.int16])
def test_integer_types(dtype, folder, cases):
    model = longformer_cpp.load(folder("tiny_longformer"))
    assert_matches(model(**padded(cases("tiny_longformer"), dtype)), cases("tiny_longformer"))


def test_boolean_masks(folder, cases):
    inputs = padded(cases("tiny_longformer"))
    inputs["attention_mask"] = inputs["attention_mask"].astype(bool)
    inputs["global_attention_mask"] = inputs["global_attention_mask"].astype(bool)
    assert_matches(longformer_cpp.load(folder("tiny_longformer"))(**inputs), cases("tiny_longformer"))


def test_arrays_with_strides(folder, cases):
    model = longformer_cpp.load(folder("tiny_longformer"))
    strided = {}
    for name, array in padded(cases("tiny_longformer")).items():
        wide = np.zeros((array.shape[0], 2 * array.shape[1]), array.dtype)
        wide[:, ::2] = array
        strided[name] = wide[:, ::2]
        assert not strided[name].flags.c_contiguous
    assert_matches(model(**strided), cases("tiny_longformer"))
    columns = {name: np.asfortranarray(array) for name, array in padded(cases("tiny_longformer")).items()}
    assert_matches(model(**columns), cases("tiny_longformer"))


def test_read_only_arrays(folder, cases):
    inputs = padded(cases("tiny_bert"))
    for array in inputs.values():
        array.flags.writeable = False
    assert_matches(longformer_cpp.load(folder("tiny_bert"))(**inputs), cases("tiny_bert"))


def test_dlpack(folder, cases):
    model = longformer_cpp.load(folder("tiny_longformer"))
    inputs = {name: OnlyDlpack(array) for name, array in padded(cases("tiny_longformer")).items()}
    assert_matches(model(**inputs), cases("tiny_longformer"))
    lists = {name: [OnlyDlpack(row.copy()) for row in rows] for name, rows in ragged(cases("tiny_bert")).items()}
    assert_matches(longformer_cpp.load(folder("tiny_bert"))(**lists), cases("tiny_bert"))


def test_lists_of_numbers(folder, cases):
    inputs = {name: [row.tolist() for row in rows] for name, rows in ragged(cases("tiny_bert")).items()}
    assert_matches(longformer_cpp.load(folder("tiny_bert"))(**inputs), cases("tiny_bert"))


def test_masks_are_optional(folder, cases):
    case = cases("tiny_bert")[0]
    model = longformer_cpp.load(folder("tiny_bert"))
    without = model([case["input_ids"]])
    zeros = np.zeros_like(case["input_ids"])
    spelled = model([case["input_ids"]], attention_mask=[zeros + 1], token_type_ids=[zeros], position_ids=[zeros])
    np.testing.assert_array_equal(without.last_hidden_state[0], spelled.last_hidden_state[0])


def test_position_ids_are_used(folder, cases):
    ids = cases("tiny_bert")[1]["input_ids"]
    model = longformer_cpp.load(folder("tiny_bert"))
    ordinary = model([ids]).last_hidden_state[0]
    positions = np.arange(len(ids))
    np.testing.assert_array_equal(model([ids], position_ids=[positions]).last_hidden_state[0], ordinary)
    reversed_positions = model([ids], position_ids=[positions[::-1]]).last_hidden_state[0]
    assert np.abs(reversed_positions - ordinary).max() > 1e-2


def test_padding_changes_nothing(folder, cases):
    case = cases("tiny_longformer")[2]
    model = longformer_cpp.load(folder("tiny_longformer"))
    n = 30
    ids, mask = case["input_ids"][:n], np.ones(n, np.int32)
    alone = model([ids]).last_hidden_state[0]
    wide = model(np.pad(ids, (0, 10))[None], attention_mask=np.pad(mask, (0, 10))[None]).last_hidden_state
    assert wide.shape == (1, 40, 16)
    assert np.abs(wide[0, :n] - alone).max() <= TOLERANCE


def test_a_document_of_padding_only(folder):
    model = longformer_cpp.load(folder("tiny_longformer"))
    ids = np.full((2, 6), 7)
    mask = np.array([[1] * 6, [0] * 6])
    output = model(ids, attention_mask=mask)
    assert output.last_hidden_state.shape == (2, 6, 16)
    np.testing.assert_allclose(output.last_hidden_state[0], model([ids[0]]).last_hidden_state[0], atol=TOLERANCE)


def test_hidden_states(folder, cases):
    model = longformer_cpp.load(folder("tiny_longformer"))
    for inputs in (ragged(cases("tiny_longformer")), padded(cases("tiny_longformer"))):
        output = model(**inputs, output_hidden_states=True)
        assert isinstance(output.hidden_states, tuple)
        assert len(output.hidden_states) == 3
        for i, state in enumerate(output.last_hidden_state):
            np.testing.assert_array_equal(output.hidden_states[-1][i], state)
            assert np.abs(output.hidden_states[0][i] - state).max() > 1e-2
        assert model(**inputs).hidden_states is None


def test_parts_that_are_not_there(folder, cases):
    ids = [cases("tiny_bert")[1]["input_ids"]]
    assert longformer_cpp.load(folder("tiny_bert"))(ids).logits is None
    assert longformer_cpp.load(folder("tiny_roberta"))(ids).pooler_output is None


def test_results_outlive_the_model(folder, cases):
    states = longformer_cpp.load(folder("tiny_bert"))(**ragged(cases("tiny_bert"))).last_hidden_state
    expected = cases("tiny_bert")[1]
    assert_close(states[1], expected["last_hidden_state"], expected["attention_mask"] == 1)
    states[1] += 1.0


IDS = np.full((2, 6), 7)
WRONG = {
    "one dimension": (dict(input_ids=IDS[0]), r"input_ids: expected \[batch, n\] or a list.*found \[6\]"),
    "choices": (dict(input_ids=IDS[None]), "multiple-choice head"),
    "a list of numbers": (dict(input_ids=[1, 2]), r"input_ids\[0\]: expected one document"),
    "no document": (dict(input_ids=[]), "at least one document"),
    "an empty document": (dict(input_ids=[np.zeros(0, int)]), "at least one token"),
    "floats": (dict(input_ids=IDS * 1.0), "input_ids: expected integers, found float64"),
    "text": (dict(input_ids="text"), "input_ids: expected integers"),
    "negative": (dict(input_ids=IDS - 20), "-13"),
    "beyond the vocabulary": (dict(input_ids=IDS + 1000), "1007"),
    "beyond 32 bits": (dict(input_ids=IDS + 2**40), "32 bits"),
    "too long": (dict(input_ids=np.full((1, 41), 7)), "40"),
    "mask of another shape": (
        dict(input_ids=IDS, attention_mask=np.ones((2, 5), int)),
        r"attention_mask: expected \[2, 6\] as input_ids, found \[2, 5\]",
    ),
    "mask without batch": (dict(input_ids=IDS, attention_mask=np.ones(6, int)), "attention_mask: expected"),
    "ragged mask too short": (
        dict(input_ids=[IDS[0]], global_attention_mask=[np.ones(5, int)]),
        r"global_attention_mask\[0\]: expected \[6\] as input_ids, found \[5\]",
    ),
    "too few masks": (dict(input_ids=list(IDS), token_type_ids=[IDS[0]]), "expected 2 arrays"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_input(what, folder):
    arguments, words = WRONG[what]
    model = longformer_cpp.load(folder("tiny_longformer"))
    with pytest.raises(longformer_cpp.Error, match=words) as raised:
        model(**arguments)
    assert "\n" not in str(raised.value)
    assert str(raised.value)


def spread(attentions, global_attentions, is_global):
    """How much probability every token gives away: over its row, or over its column when global."""
    sums = attentions.sum(-1)
    for head, of_global in enumerate(global_attentions):
        sums[head, is_global] += of_global.sum(0)
    return sums


def test_attentions_of_windows_and_global_tokens(folder, cases):
    model = longformer_cpp.load(folder("tiny_longformer"))
    lists = ragged(cases("tiny_longformer"))
    output = model(**lists, output_attentions=True)
    batch = model(**padded(cases("tiny_longformer")), output_attentions=True)
    assert len(output.attentions) == len(output.global_attentions) == len(batch.attentions)
    pairs = zip(lists["global_attention_mask"], lists["attention_mask"])
    are_global = [(wanted == 1) & (seen == 1) for wanted, seen in pairs]
    most = max(row.sum() for row in are_global)
    for layer, (local, of_global) in enumerate(zip(output.attentions, output.global_attentions)):
        window = local[0].shape[2] - of_global[0].shape[2]
        assert batch.global_attentions[layer].shape[3] == most
        assert batch.attentions[layer].shape[3] == most + window
        for i, ids in enumerate(lists["input_ids"]):
            n, x = len(ids), are_global[i].sum()
            assert local[i].shape[1:] == (n, x + window) and of_global[i].shape[1:] == (n, x)
            assert local[i].dtype == of_global[i].dtype == np.float32
            own = spread(local[i], of_global[i], are_global[i])
            seen = lists["attention_mask"][i] == 1
            assert np.abs(own[:, seen] - 1).max() <= TOLERANCE and not own[:, ~seen].any()
            found = batch.attentions[layer][i, :, :n]
            joined = np.concatenate([found[..., :x], found[..., most:]], axis=2)
            assert np.abs(joined - local[i]).max() <= TOLERANCE
            assert not batch.attentions[layer][i, :, n:].any()
            found = batch.global_attentions[layer][i, :, :n, :x]
            assert np.abs(found - of_global[i]).max(initial=0) <= TOLERANCE


def test_attentions_without_global_tokens(folder):
    output = longformer_cpp.load(folder("tiny_longformer"))(IDS, output_attentions=True)
    assert output.global_attentions is None
    assert all(np.abs(layer.sum(-1) - 1).max() <= TOLERANCE for layer in output.attentions)


def test_attentions_of_dense_layers(folder, cases):
    inputs = padded(cases("tiny_bert"))
    output = longformer_cpp.load(folder("tiny_bert"))(**inputs, output_attentions=True)
    assert output.global_attentions is None
    batch, n = inputs["input_ids"].shape
    for layer in output.attentions:
        assert layer.shape[0] == batch and layer.shape[2:] == (n, n)
        sums = layer.sum(-1) - inputs["attention_mask"][:, None]
        assert np.abs(sums).max() <= TOLERANCE
        assert not (layer * (inputs["attention_mask"][:, None, None] == 0)).any()


def test_no_attentions_unless_asked_for(folder):
    output = longformer_cpp.load(folder("tiny_longformer"))(IDS)
    assert output.attentions is None and output.global_attentions is None


def test_folders_that_cannot_be_loaded(tmp_path, folder):
    with pytest.raises(longformer_cpp.Error, match="absent"):
        longformer_cpp.load(tmp_path / "absent")
    with pytest.raises(longformer_cpp.Error, match="config.json"):
        longformer_cpp.load(tmp_path)
    with pytest.raises(longformer_cpp.Error, match="fp8"):
        longformer_cpp.load(folder("tiny_bert"), dtype="fp8")


def test_threads_share_a_model(folder, cases):
    model = longformer_cpp.load(folder("tiny_longformer"))
    documents = [case["input_ids"] for case in cases("tiny_longformer")]
    expected = [model([ids]).last_hidden_state[0] for ids in documents]
    wrong = []

    def work(number):
        for _ in range(50):
            found = model([documents[number]]).last_hidden_state[0]
            if not np.abs(found - expected[number]).max() <= TOLERANCE:
                wrong.append(number)

    workers = [threading.Thread(target=work, args=(number,)) for number in (0, 1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_weights_that_are_not_finite(folder, tmp_path):
    """They are told, and results are as they are, like those of transformers."""
    shutil.copytree(folder("tiny_bert"), tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    data = bytearray(file.read_bytes())
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    place = 8 + int.from_bytes(data[:8], "little")
    place += header["encoder.layer.1.output.dense.bias"]["data_offsets"][0]
    data[place : place + 4] = np.float32(np.nan).tobytes()
    file.write_bytes(data)
    with pytest.warns(RuntimeWarning, match=r"encoder.layer.1.output.dense.bias \(1 of 16\)") as told:
        model = longformer_cpp.load(tmp_path / "model")
    assert len(told) == 1 and told[0].filename == __file__
    out = model([[5, 6, 7]], output_hidden_states=True)
    assert np.isnan(out.last_hidden_state[0]).all() and np.isfinite(out.hidden_states[1][0]).all()
    with pytest.warns(RuntimeWarning, match="output.dense.bias"):
        longformer_cpp.convert(tmp_path / "model", tmp_path / "converted", window=8, max_positions=64)
