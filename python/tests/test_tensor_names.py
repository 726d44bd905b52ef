"""A model without one of its tensors is told by the name that the tensor has in its file, in every family."""

import json
import shutil

import pytest
from conftest import FIXTURES

import longformer_cpp



def is_opened(folder):
    """Whether a class opens it: Reformers of language have to be converted, tables of words have no family."""
    kind = (folder / "config.json").read_text()
    is_left_out = folder.parent.name == "reformer" or "model2vec" in kind or '"model_type"' not in kind
    return (folder / "model.safetensors").is_file() and not is_left_out


FOLDERS = [path.parent for path in sorted(FIXTURES.glob("**/config.json")) if is_opened(path.parent)]


def opener(folder):
    """The class that opens the folder, or none."""
    for opens in (longformer_cpp.load, longformer_cpp.LanguageModel):
        try:
            opens(folder)
        except longformer_cpp.Error:
            continue
        return opens
    return None


def renamed(data, tensor):
    """The bytes of a file in which the tensor has another name of the same length."""
    name = json.dumps(tensor).encode()
    assert data.count(name + b":") == 1
    return data.replace(name + b":", b'"~' + name[2:] + b":")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_missing_tensor_has_the_name_of_its_file(folder, tmp_path):
    opens = opener(folder)
    assert opens is not None
    copy = shutil.copytree(folder, tmp_path / "model")
    data = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    names = [name for name in json.loads(data[8 : 8 + size]) if name != "__metadata__"]
    told = 0
    for name in names:
        (copy / "model.safetensors").write_bytes(renamed(data, name))
        try:
            opens(copy)
        except longformer_cpp.Error as error:
            assert f"tensor {name}" in str(error) or "head" in str(error), (name, error)
            told += 1
    assert told > 0

