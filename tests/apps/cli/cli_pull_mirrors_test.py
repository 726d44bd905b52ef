"""`longformer pull` from mirrors of the Hub, whose lists of files have names alone."""

import pytest
from cli_pull_test import NAME, SENTENCE, big, hub, pull  # noqa: F401
from cli_test import run
from hub import files_of


@pytest.mark.parametrize("relays", [False, True])
def test_a_mirror_that_lists_names_alone(hub, big, tmp_path, relays):
    hub.names_only, hub.relays = True, relays
    for name in (NAME, "org/big"):
        pull(hub, tmp_path / "mirror", name).passes()
    heads = [path for kind, command, path, _ in hub.requests if command == "HEAD"]
    assert any(path.endswith("/model.safetensors") for path in heads) and all("/resolve/" in path for path in heads)
    assert not any(command == "HEAD" and kind == "cdn" for kind, command, _, _ in hub.requests)
    hub.names_only = hub.relays = False
    for name in (NAME, "org/big"):
        pull(hub, tmp_path / "whole", name).passes()
    assert files_of(tmp_path / "mirror") == files_of(tmp_path / "whole")
    # Files that are there are not fetched again, and modules are found by their list.
    hub.names_only = True
    hub.add("org/modules", files_of(SENTENCE))
    assert pull(hub, tmp_path / "mirror", "org/big", "--json").passes().json[0]["fetched_files"] == 0
    pull(hub, tmp_path / "mirror", "org/modules").passes()
    assert run("info", "org/modules", environment=hub.environment(tmp_path / "mirror", HF_HUB_OFFLINE="1")).passes()


def test_a_mirror_that_knows_no_hash(hub, big, tmp_path):
    hub.names_only = True
    path = f"/org/big/resolve/{big.revisions['main'][0]}/model.safetensors"
    hub.faults[path].append("no hash")
    result = pull(hub, tmp_path, "org/big")
    assert result.code == 1 and all(word in result.err for word in ("model.safetensors", "67a-5f", "size 3000000")), result.err
    hub.faults[path] += [503, "stall"]
    pull(hub, tmp_path, "org/big", HF_HUB_DOWNLOAD_TIMEOUT="1").passes()
    hub.faults[path].append(404)
    is_wrong = pull(hub, tmp_path / "new", "org/big")
    assert is_wrong.code == 1 and "model.safetensors, found 404" in is_wrong.err, is_wrong.err
