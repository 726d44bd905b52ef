"""nginx in front of `longformer serve`, by the block of docs/server.md."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

BINARY = os.environ["LONGFORMER_BINARY"]
ROOT = pathlib.Path(__file__).resolve().parents[3]
MODEL = ROOT / "tests" / "fixtures" / "sentence_dense"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")

pytestmark = pytest.mark.skipif(not NGINX, reason="no nginx")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(port):
    deadline = time.monotonic() + 20
    while True:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline, "nginx does not listen"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder, port = tmp_path_factory.mktemp("nginx"), free_port()
    server = subprocess.Popen([BINARY, "serve", MODEL, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    behind = server.stdout.readline().split()[-1]
    block = re.search(r"```nginx\n(.*?)```", (ROOT / "docs" / "server.md").read_text(encoding="utf-8"), re.S)[1]
    assert "http://127.0.0.1:8080" in block
    paths = "".join(f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    # The workers of a root's nginx are of another user, who may not enter the folder.
    user = "user root;\n" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"{user}daemon off;\nworker_processes 1;\npid {folder}/pid;\nerror_log {folder}/errors;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}server {{\nlisten 127.0.0.1:{port};\n{block.replace('http://127.0.0.1:8080', behind)}}}\n}}\n")  # fmt: skip
    nginx = subprocess.Popen([NGINX, "-c", folder / "nginx.conf", "-e", folder / "errors", "-p", folder], stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        for process in (nginx, server):
            process.terminate()
            process.wait(timeout=60)


def ask(address, path, body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data, {"Content-Type": "application/json"} | headers)
    return urllib.request.urlopen(request, timeout=60)


def test_requests_and_errors(address):
    with ask(address, "/embed", {"inputs": ["he was", "of"]}) as answer:
        assert len(json.loads(answer.read())) == 2 and answer.headers["x-compute-type"] == "cpu"
    with ask(address, "/", Accept="text/html") as answer:
        assert b"<html" in answer.read() and "default-src 'none'" in answer.headers["Content-Security-Policy"]
    for body, status in (({"inputs": ""}, 400), ({"inputs": 3}, 422)):
        with pytest.raises(urllib.error.HTTPError) as failed:
            ask(address, "/embed", body)
        assert failed.value.code == status and "error_type" in json.loads(failed.value.read())


def test_large_bodies(address):
    with ask(address, "/embed?long=truncate", {"inputs": "he was the of and " * 1_000_000}) as answer:
        assert int(answer.headers["x-truncated-tokens"]) > 1_000_000


def test_events_arrive_one_by_one(address):
    text = "".join(f"{n}: one of them had more than the other, {n % 7} of all.\n" for n in range(60_000))
    times, names = [], []
    with ask(address, "/documents", {"name": "long", "text": text}, Accept="text/event-stream") as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        for line in answer:
            if line.startswith(b"event: "):
                times.append(time.monotonic())
                names.append(line[7:].strip().decode())
    assert names[-1] == "done" and set(names[:-1]) == {"progress"} and len(names) > 10
    # Collected events would come at once.
    assert times[-1] - times[len(times) // 2] > 0.1 * (times[-1] - times[0]) > 0
