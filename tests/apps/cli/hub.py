"""A server that plays the Hub on this machine: its API of models, files, redirects to a second server for large
files, refusals, and faults on demand. `longformer pull` and huggingface_hub both take it for the Hub."""

import collections
import hashlib
import json
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CHUNK = 1 << 14
LARGE = (".safetensors", ".bin", ".h5", ".onnx", "tokenizer.json")


class Stored:
    """A file: its hash is what the Hub names it by."""

    def __init__(self, name, data):
        self.data = data
        self.is_large = name.endswith(LARGE)
        self.git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        self.hash = hashlib.sha256(data).hexdigest() if self.is_large else self.git


class Model:
    def __init__(self, files, gated=False, token=None):
        self.revisions = {}
        self.gated = gated
        self.token = token
        self.commit("main", files)

    def commit(self, revision, files):
        """Makes the files those of a branch; its commit."""
        stored = {name: Stored(name, data) for name, data in files.items()}
        listed = sorted((name, one.hash) for name, one in stored.items())
        commit = hashlib.sha1(json.dumps(listed).encode()).hexdigest()
        self.revisions[revision] = self.revisions[commit] = (commit, stored)
        return commit

    def files(self, revision="main"):
        return self.revisions[revision][1]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        hub = self.server.hub
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        with hub.lock:
            hub.requests.append((self.server.kind, self.command, path, dict(self.headers)))
            faults = hub.faults[path]
            fault = faults.popleft() if faults else None
        try:
            self.answer(hub, path, fault)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_HEAD = do_GET

    def answer(self, hub, path, fault):
        if isinstance(fault, int):
            return self.refuse(fault, headers=hub.fault_headers)
        if fault == "stall":
            return time.sleep(hub.stall)
        if self.server.kind == "cdn":
            name, file = hub.large[path.removeprefix("/")]
            return self.send_data(file.data, file, fault, {})
        if path.startswith("/api/models/"):
            return self.answer_api(hub, path.removeprefix("/api/models/"))
        if hub.relays and not path.startswith("/relay/"):
            return self.reply(307, b"", {"Location": "/relay" + path})
        path = path.removeprefix("/relay")
        name, _, rest = path[1:].partition("/resolve/")
        model = self.allowed(hub, name)
        if model is None:
            return None
        revision, _, file_name = rest.partition("/")
        if revision not in model.revisions:
            return self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        commit, files = model.revisions[revision]
        if file_name not in files:
            return self.refuse(404, "EntryNotFound", "Entry not found")
        file = files[file_name]
        headers = {"X-Repo-Commit": commit, "ETag": f'"{file.git}"'}
        if fault == "no hash":
            return self.send_data(file.data, file, fault, {**headers, "ETag": '"67a-5f"'})
        if not file.is_large or not hub.redirects:
            return self.send_data(file.data, file, fault, {**headers, "ETag": f'"{file.hash}"'})
        headers |= {"X-Linked-Etag": f'"{file.hash}"', "X-Linked-Size": str(len(file.data))}
        return self.reply(302, b"", {**headers, "Location": f"{hub.cdn_address}/{file.hash}?signed=1"})

    def allowed(self, hub, name):
        """The model, or None after a refusal."""
        sent = self.headers.get("Authorization", "")
        model = hub.models.get(name)
        if model is None or (model.token and not model.gated and sent != f"Bearer {model.token}"):
            code = 404 if sent else 401
            return self.refuse(code, "RepoNotFound", "Repository not found")
        if model.gated and sent != f"Bearer {model.token}":
            return self.refuse(403 if sent else 401, "GatedRepo", f"Access to model {name} is restricted.")
        return model

    def answer_api(self, hub, path):
        name, kind, revision = path, "revision", "main"
        for one in ("revision", "tree"):
            if f"/{one}/" in path:
                name, kind, revision = path.partition(f"/{one}/")[0], one, path.partition(f"/{one}/")[2]
        model = self.allowed(hub, name)
        if model is None:
            return None
        if revision not in model.revisions:
            return self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        commit, files = model.revisions[revision]
        entries = []
        for file_name, file in files.items():
            size = hub.longer.get(file_name, len(file.data))
            entry = {"rfilename": file_name, "size": size, "blobId": file.git}
            if kind == "tree":
                entry = {"type": "file", "path": file_name, "size": size, "oid": file.git}
            if file.is_large:
                lfs = {"size": size, "pointerSize": 134}
                entry["lfs"] = {**lfs, "oid" if kind == "tree" else "sha256": file.hash}
            entries.append(entry)
        if hub.names_only:
            entries = [{"rfilename": entry["rfilename"]} for entry in entries]
        found = entries if kind == "tree" else {"_id": "0", "id": name, "sha": commit, "private": False, "siblings": entries}
        return self.reply(200, json.dumps(found).encode(), {"Content-Type": "application/json"})

    def send_data(self, data, file, fault, headers):
        first, status = 0, 200
        asked = self.headers.get("Range")
        if asked and fault != "norange":
            first = int(asked.removeprefix("bytes=").partition("-")[0])
            if first >= len(data):
                return self.reply(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            status = 206
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
        body = data[first:]
        if fault == "wrong":
            body = bytes([body[0] ^ 1]) + body[1:]
        if fault == "more":
            body += b"x"
        headers.setdefault("ETag", f'"{file.hash}"')
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body)), "Accept-Ranges": "bytes"}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return None
        end = int(fault.removeprefix("cut:")) if isinstance(fault, str) and fault.startswith("cut:") else len(body)
        for i in range(0, min(end, len(body)), CHUNK):
            self.wfile.write(body[i : min(i + CHUNK, end)])
            time.sleep(self.server.hub.pause)
        self.close_connection = end < len(body)
        return None

    def reply(self, status, body, headers):
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code="", message="", headers=None):
        more = {"X-Error-Code": code, "X-Error-Message": message} if code else {}
        return self.reply(status, b"<html>no</html>", {**more, **(headers or {})})


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Clients of these tests are killed."""


class Hub:
    """`faults[path]` are taken one for each request of the path: a status, "cut:N" (the connection ends after N
    bytes), "wrong", "more", "norange", "stall", "no hash". `pause` slows the sending of each 16 KB."""

    def __init__(self):
        self.lock = threading.Lock()
        self.models, self.requests = {}, []
        self.faults = collections.defaultdict(collections.deque)
        #: Bytes that the listing says of a file, in place of its own.
        self.longer = {}
        self.fault_headers = {}
        #: The listing has names alone, and files lie behind a redirect on the same server, as on mirrors.
        self.names_only = self.relays = False
        self.pause, self.stall, self.redirects = 0.0, 3.0, True
        self.servers = []
        for kind in ("hub", "cdn"):
            server = Server(("127.0.0.1", 0), Handler)
            server.hub, server.kind = self, kind
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
            self.servers.append(server)
        self.address, self.cdn_address = (f"http://127.0.0.1:{server.server_port}" for server in self.servers)

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    @property
    def large(self):
        return {one.hash: (name, one) for model in self.models.values() for _, files in model.revisions.values()
                for name, one in files.items()}  # fmt: skip

    def add(self, name, files, **options):
        self.models[name] = Model(files, **options)
        return self.models[name]

    def gets(self, kind=None):
        """Paths that were asked for, in order."""
        return [path for server, _, path, _ in self.requests if kind in (None, server)]

    def environment(self, home, **more):
        """Variables of a program that takes this for the Hub, and keeps its cache in a folder."""
        return {"HF_ENDPOINT": self.address, "HF_HOME": str(home), "HF_HUB_CACHE": "", "HUGGINGFACE_HUB_CACHE": "",
                "HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "", "HF_TOKEN": "", "HUGGING_FACE_HUB_TOKEN": "",
                "HF_TOKEN_PATH": "", "http_proxy": "", "https_proxy": "", "all_proxy": "", "no_proxy": "127.0.0.1", **more}  # fmt: skip


def files_of(folder):
    """The files of a folder by their names."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
