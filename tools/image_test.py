#!/usr/bin/env python3
"""Does what the Dockerfile says, without a container engine: each FROM is a minimal Debian root, RUN, COPY and ENV are
done in it, and the last stage serves a model. Usage: image_test.py. Needs root, debootstrap and the network.

A cache of RUN --mount lies in ~/.cache/longformer and stays.
"""

import contextlib
import fnmatch
import http.client
import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time

import roots
from roots import expect, expect_in, step

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODEL = ROOT / "tests" / "fixtures" / "sentence_dense"
IMAGE = re.compile(r"debian:12-slim(?: AS (\w+))?")


def instructions(text):
    """(word, rest) of each instruction."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, rest.strip()


def context():
    """Files that a build is sent: those that git knows or would know, without those of .dockerignore."""
    ignored = (ROOT / ".dockerignore").read_text().split()
    names = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.split("\0")
    return [name for name in names if name and (ROOT / name).is_file() and not any(fnmatch.fnmatch(name.split("/")[0], one) for one in ignored)]


class Stage:
    """The root of a FROM and what its instructions have set."""

    def __init__(self, kept):
        self.root = kept.enter_context(roots.Root("bookworm"))
        self.before = self.root.bytes()
        self.folder, self.user, self.environment, self.settings = "/", None, {}, {}

    def do(self, word, rest, stages):
        if word == "RUN":
            self.do_run(rest)
        elif word == "COPY":
            self.do_copy(rest, stages)
        elif word == "WORKDIR":
            self.folder = rest
            self.root.at(rest).mkdir(parents=True, exist_ok=True)
        elif word == "ENV":
            self.environment.update(pair.split("=", 1) for pair in shlex.split(rest))
        elif word == "USER":
            self.user = rest.split(":")[0]
        elif word in ("VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"):
            self.settings[word] = rest
        else:
            sys.exit(f"Dockerfile: image_test.py does not know {word}")

    def do_run(self, rest):
        mount = re.match(r"--mount=type=cache,target=(\S+) ", rest)
        if mount:
            cache = roots.CACHE / "fresh-bookworm" / "ccache"
            cache.mkdir(parents=True, exist_ok=True)
            self.root.mount(cache, mount[1], "--bind")
            rest = rest[mount.end() :]
        with step(f"RUN {rest[:90]}"):
            self.root.run(rest, user=self.user, folder=self.folder, environment=self.environment)

    def do_copy(self, rest, stages):
        words = rest.split()
        target = self.root.at(os.path.join(self.folder, words[-1]))
        if words[0].startswith("--from="):
            source = stages[words[0].partition("=")[2]].root
            found = [file for pattern in words[1:-1] for file in source.path.glob(pattern.lstrip("/"))]
            expect(bool(found), True, f"COPY {rest}: files")
            target.mkdir(parents=True, exist_ok=True)
            for file in found:
                shutil.copy(file, target)
            return
        source = words[0]
        for name in context():
            if source == "." or name == source:
                place = target / name if source == "." else target
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, place)

    def command(self, setting):
        """The words of a JSON list."""
        return json.loads(self.settings[setting][self.settings[setting].index("[") :])


def built(kept):
    """The stages by their names, done."""
    stages, stage = {}, None
    for word, rest in instructions((ROOT / "Dockerfile").read_text()):
        if word == "FROM":
            image = IMAGE.fullmatch(rest)
            expect(bool(image), True, f"FROM {rest}: debian:12-slim")
            stage = Stage(kept)
            stages[image[1] or "last"] = stage
        else:
            stage.do(word, rest, stages)
    return stages


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def check_health(stage, environment, code):
    words = stage.command("HEALTHCHECK")
    return stage.root.run(words, code=code, user=stage.user, folder=stage.folder, environment=environment)


def check_server(stage):
    """A model that is mounted read-only, served by a user without rights."""
    port = free_port()
    environment = {**stage.environment, "LONGFORMER_PORT": str(port)}
    stage.root.mount(MODEL, "/model", "--bind")
    subprocess.run(["mount", "-o", "remount,bind,ro", stage.root.at("/model")], check=True)
    expect_in("found none", check_health(stage, environment, 1), "health before the start")
    words = stage.command("ENTRYPOINT") + stage.command("CMD")
    server = subprocess.Popen(
        stage.root.words(words, user=stage.user, folder=stage.folder, environment=environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    expect(server.stdout.readline(), f"listening on http://0.0.0.0:{port}\n", "first line of the server")
    status = pathlib.Path(f"/proc/{server.pid}/status").read_text()
    expect(re.search(r"^Uid:\s+(.*)$", status, re.M)[1].split(), ["65532"] * 4, "user of the server")
    expect_in("takes requests", check_health(stage, environment, 0), "health")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/embed", json.dumps({"inputs": "he was in the house"}), {"Content-Type": "application/json", "Host": "localhost"})
    answer = connection.getresponse()
    expect(answer.status, 200, "/embed")
    expect(len(json.loads(answer.read())), 1, "vectors")
    stage.root.run("! touch /model/file && ! touch /etc/file && touch /data/file && rm /data/file", user=stage.user)
    begin = time.monotonic()
    server.terminate()
    expect(server.wait(30), 0, "exit code after SIGTERM")
    print(f"stopped in {time.monotonic() - begin:.1f} s")
    check_health(stage, environment, 1)


def check_cache(stage):
    """A model by name is looked for below HF_HOME, that of the image or another."""
    home = stage.root.at(stage.environment["HF_HOME"])
    for place in (home, stage.root.at("/elsewhere")):
        folder = place / "hub" / "models--org--name"
        shutil.copytree(MODEL, folder / "snapshots" / "0123456789abcdef")
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text("0123456789abcdef")
        environment = {**stage.environment, "HF_HUB_OFFLINE": "1", "HF_HOME": "/" + str(place.relative_to(stage.root.path))}
        stage.root.run(["longformer", "info", "org/name"], user=stage.user, folder=stage.folder, environment=environment)
        shutil.rmtree(place)
        stage.root.run(["longformer", "info", "org/name"], code=1, user=stage.user, folder=stage.folder, environment=environment)


def main():
    if len(sys.argv) != 1:
        sys.exit(__doc__)
    roots.alone()
    with contextlib.ExitStack() as kept:
        last = built(kept)["last"]
        size = last.root.bytes()
        print(f"image: {size / 1e6:.0f} MB, {(size - last.before) / 1e6:.0f} MB of it added to the minimal root")
        with step("the server, its health and its user"):
            check_server(last)
        with step("models by name"):
            check_cache(last)


if __name__ == "__main__":
    main()
