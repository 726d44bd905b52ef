"""`longformer serve` as a service: the question whether it takes requests, sockets that are passed, units of systemd."""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import socket
import subprocess
import threading
import time

import pytest

BINARY = os.environ["LONGFORMER_BINARY"]
ROOT = pathlib.Path(__file__).resolve().parents[3]
MODEL = ROOT / "tests" / "fixtures" / "sentence_dense"
UNITS = ROOT / "packaging"
#: Tenths; `systemd-analyze security` calls 30 and less well protected.
EXPOSURE = 30


def ask(*arguments, **environment):
    return subprocess.run(
        [BINARY, "serve", "--check", *map(str, arguments)], capture_output=True, text=True, timeout=60, env={**os.environ, **environment}, check=False
    )


def refused(done, code, *words):
    assert done.returncode == code and done.stdout == "", (done.returncode, done.stdout, done.stderr)
    assert done.stderr.startswith("longformer: error: ") and done.stderr.count("\n") == 1, done.stderr
    assert all(word in done.stderr for word in words), done.stderr


@contextlib.contextmanager
def answering(answer):
    """A server of one kind of answer, which is a function of the connection; gives its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def served(*arguments, command=(BINARY,), **how):
    process = subprocess.Popen([*command, "serve", MODEL, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **how)
    try:
        line = process.stdout.readline()
        assert line.startswith("listening on http://"), line
        yield int(line.rsplit(":", 1)[1])
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()


class TestQuestion:
    def test_a_server_that_runs(self):
        with served("--port", 0) as port:
            for done in (ask("--port", port), ask("--hostname", "localhost", LONGFORMER_PORT=str(port)), ask("--hostname", "0.0.0.0", "-p", port)):
                assert done.returncode == 0 and done.stdout.endswith(f":{port} takes requests\n") and done.stderr == "", done
        refused(ask("--port", port), 1, f"127.0.0.1:{port}: expected a server", "found none")

    def test_one_with_a_key(self):
        with served("--port", 0, env={**os.environ, "LONGFORMER_API_KEY": "secret"}) as port:
            assert ask("--port", port).returncode == 0

    def test_options_of_the_server_in_the_environment(self):
        """A health check sees all variables of its container."""
        with served("--port", 0) as port:
            environment = {"LONGFORMER_PORT": str(port), "LONGFORMER_INDEX": "/nothing/here.index", "LONGFORMER_ADAPTER": "a=b",
                           "LONGFORMER_GRACE": "8", "LONGFORMER_API_KEY_FILE": "/nothing/there"}  # fmt: skip
            assert ask(**environment).returncode == 0

    @pytest.mark.parametrize("words, begin", [("status 503", b"HTTP/1.1 503 Unhealthy\r\n\r\n"), ("status 404", b"HTTP/1.1 404 Not Found\r\n\r\n"),
                                              ("HTTP server", b"SSH-2.0-x\r\n"), ("HTTP server", b""), ("HTTP server", b"HTTP/1.1 "),
                                              ("HTTP server", b"x" * 100_000)])  # fmt: skip
    def test_other_answers(self, words, begin):
        def answer(connection):
            connection.recv(1000)
            connection.sendall(begin)

        with answering(answer) as port:
            refused(ask("--port", port), 1, f"127.0.0.1:{port}", words)

    def test_an_answer_in_pieces(self):
        def answer(connection):
            connection.recv(1000)
            for byte in b"HTTP/1.1 200 OK\r\n":
                connection.sendall(bytes([byte]))
                time.sleep(0.01)

        with answering(answer) as port:
            assert ask("--port", port).returncode == 0

    @pytest.mark.parametrize("piece", [b"", b"H"])
    def test_no_answer_in_time(self, piece):
        """Silence, and bytes that drip for ever."""

        def answer(connection):
            for _ in range(60):
                connection.sendall(piece)
                time.sleep(0.2)

        with answering(answer) as port:
            begin = time.monotonic()
            refused(ask("--port", port), 1, "in time")
            assert 4 < time.monotonic() - begin < 9

    def test_wrong_use(self):
        refused(ask("--port", 0), 2, "--port", "found 0")
        refused(ask("--hostname", "no.such.host.invalid"), 2, "no.such.host.invalid")
        done = subprocess.run([BINARY, "serve"], capture_output=True, text=True, check=False)
        refused(done, 2, "MODEL is required")


def test_a_passed_socket_keeps_what_comes_before_the_start():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        early = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        early.request("POST", "/embed", json.dumps({"inputs": "a"}), {"Content-Type": "application/json"})
        shell = f'export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@" 3<&{listener.fileno()}'
        with served("--port", 1, command=("bash", "-c", shell, "bash", BINARY), pass_fds=[listener.fileno()]) as found:
            assert found == port
            answer = early.getresponse()
            assert answer.status == 200 and len(json.loads(answer.read())) == 1


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
class TestUnits:
    @pytest.fixture
    def units(self, tmp_path):
        """Both units with an instance's name and the program of this build."""
        for kind in ("service", "socket"):
            text = (UNITS / f"longformer@.{kind}").read_text().replace("ExecStart=longformer ", f"ExecStart={BINARY} ")
            (tmp_path / f"longformer@model.{kind}").write_text(text)
        return tmp_path

    def test_verify(self, units):
        files = sorted(units.iterdir())
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", *files], capture_output=True, text=True, check=False)
        assert "longformer" not in done.stdout + done.stderr and done.returncode == 0, done.stdout + done.stderr

    def test_security(self, units):
        done = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE}", units / "longformer@model.service"],
            capture_output=True, text=True, check=False)  # fmt: skip
        assert done.returncode == 0 and "Overall exposure level" in done.stdout, done.stdout + done.stderr


def test_the_unit_waits_longer_than_the_server():
    settings = dict(line.split("=", 1) for line in (UNITS / "longformer@.service").read_text().splitlines() if "=" in line and line[0] not in "#[")
    assert settings["Type"] == "notify" and int(settings["TimeoutStopSec"]) > 30
    assert settings["ExecStart"].split()[:2] == ["longformer", "serve"]
