"""The cache of the Hub as `longformer pull` and as huggingface_hub write it, each read by the other.

    python3 tests/parity/hub_parity.py PROGRAM

Both fetch from a server on this machine that plays the Hub (tests/apps/cli/hub.py). Names of blobs, links and references
must be equal for the files that both fetch; each side finds what the other one fetched, and fetches nothing twice.
Exit code 1 when anything differs.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "apps" / "cli"))
from hub import Hub, files_of  # noqa: E402

FIXTURES = ROOT / "tests" / "fixtures"
NAMES = {"org/tiny-bert": "tiny_bert", "org/dense": "sentence_dense", "oldest": "tiny_bert"}
#: Runs with the variables of a cache; prints JSON.
THEIRS = """
import json, sys
import huggingface_hub
name, task = sys.argv[1:]
if task == "fetch":
    print(json.dumps(huggingface_hub.snapshot_download(name)))
elif task == "find":
    folder = huggingface_hub.snapshot_download(name, local_files_only=True)
    found = huggingface_hub.try_to_load_from_cache(name, "config.json")
    scanned = huggingface_hub.scan_cache_dir()
    repos = {repo.repo_id: [repo.size_on_disk, repo.nb_files, sorted(repo.refs)] for repo in scanned.repos}
    print(json.dumps([folder, found, [str(one) for one in scanned.warnings], repos[name]]))
elif task == "load":
    import transformers
    model = transformers.AutoModel.from_pretrained(name, local_files_only=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(name, local_files_only=True)
    print(json.dumps([sum(p.numel() for p in model.parameters()), tokenizer("a b")["input_ids"]]))
else:
    scanned = huggingface_hub.scan_cache_dir()
    commits = [one.commit_hash for repo in scanned.repos if repo.repo_id == name for one in repo.revisions]
    scanned.delete_revisions(*commits).execute()
    print(json.dumps(len(commits)))
"""
failures = 0


def check(what, ours, theirs):
    global failures
    equal = ours == theirs
    failures += not equal
    print(f"{'equal  ' if equal else 'DIFFERS'} {what}" + ("" if equal else f": {ours} and {theirs}"))


def theirs(hub, home, name, task):
    variables = {**os.environ, **hub.environment(home), "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    # An empty variable is a path to them.
    environment = {key: value for key, value in variables.items() if value}
    done = subprocess.run([sys.executable, "-c", THEIRS, name, task], capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise SystemExit(f"huggingface_hub could not {task} {name}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def ours(program, hub, home, *words, **more):
    environment = {**os.environ, **hub.environment(home), **more}
    done = subprocess.run([program, *words], capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        raise SystemExit(f"longformer {' '.join(words)}: {done.stderr}")
    return done.stdout


def layout(home, name):
    """Links with their targets, and references with their commits."""
    folder = home / "hub" / ("models--" + name.replace("/", "--"))
    links = {path.relative_to(folder).as_posix(): os.readlink(path) for path in folder.glob("snapshots/**/*") if path.is_symlink()}
    references = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.glob("refs/**/*") if path.is_file()}
    return links, references


def compare(program, hub, name, work):
    mine, other = work / "ours", work / "theirs"
    pulled = json.loads(ours(program, hub, mine, "pull", name, "--json"))
    fetched = theirs(hub, other, name, "fetch")
    links, references = layout(mine, name)
    all_links, their_references = layout(other, name)
    check(f"{name}: links of {len(links)} files", links, {key: all_links.get(key) for key in links})
    check(f"{name}: references", references, their_references)
    check(f"{name}: folder", pathlib.Path(pulled["folder"]).relative_to(mine), pathlib.Path(fetched).relative_to(other))

    folder, found, warnings, (size, files, refs) = theirs(hub, mine, name, "find")
    check(f"{name}: the folder that they find", folder, pulled["folder"])
    check(f"{name}: a file that they find", found, os.path.join(folder, "config.json"))
    check(f"{name}: warnings of their scan", warnings, [])
    stored = hub.models[name].files()
    # Files with equal contents are one.
    sizes = {stored[pathlib.PurePath(link).relative_to(f"snapshots/{pulled['commit']}").as_posix()] for link in links}
    expected = sum({one.hash: len(one.data) for one in sizes}.values())
    check(f"{name}: sizes of their scan", [size, files, refs], [expected, len(links), ["main"]])

    before = len(hub.requests)
    text = ["info", name, "--json"]
    check(f"{name}: what we find", ours(program, hub, other, *text, HF_HUB_OFFLINE="1"), ours(program, hub, mine, *text, HF_HUB_OFFLINE="1"))
    again = json.loads(ours(program, hub, other, "pull", name, "--json"))
    check(f"{name}: files that we fetch again", [again["fetched_files"], len(hub.requests) - before <= 2], [0, True])
    before = len(hub.requests)
    theirs(hub, mine, name, "fetch")
    asked = {path.rpartition("/")[2] for path in [one[2] for one in hub.requests[before:] if one[1] == "GET"]}
    check(f"{name}: files that they fetch again", asked & {pathlib.PurePath(link).name for link in links}, set())
    check(f"{name}: revisions that they delete", theirs(hub, mine, name, "delete"), 1)


def main():
    program = sys.argv[1]
    hub = Hub()
    with tempfile.TemporaryDirectory() as folder:
        for name, fixture in NAMES.items():
            hub.add(name, {**files_of(FIXTURES / fixture), "README.md": b"# a card\n"})
            work = pathlib.Path(folder) / fixture / name.replace("/", "-")
            compare(program, hub, name, work)
        home = pathlib.Path(folder) / "loaded"
        ours(program, hub, home, "pull", "org/tiny-bert")
        parameters, ids = theirs(hub, home, "org/tiny-bert", "load")
        told = json.loads(ours(program, hub, home, "tokenize", "org/tiny-bert", "--text", "a b", "--json"))
        check("tokens of transformers from our cache", ids, told["ids"])
        check("transformers loads weights from our cache", parameters > 0, True)
    hub.close()
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
