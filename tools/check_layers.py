#!/usr/bin/env python3
"""Holds the includes to the order of the rooms, and tensor data to ops and below.

    core <- kernels <- ops <- models <- training <- engine <- tasks <- api <- apps, python
    core <- text, formats <- models          (ops never see text or formats)
    text, formats <- documents <- engine, apps, python
    kernels, text <- index <- tasks
    formats <- hub <- api
    engine: reading <- frame <- run <- training
    tasks: each folder stands alone, but for TASK_USES

Each public header has a row in PUBLIC.

Usage: check_layers.py [ROOT]. Prints one line per breach and exits 1 when there is one.
"""

import pathlib
import re
import sys

USES = {"core": set(), "text": {"core"}, "formats": {"core"}, "kernels": {"core"}}
USES["ops"] = {"kernels", "core"}
USES["models"] = USES["ops"] | {"ops", "text", "formats"}
USES["training"] = USES["models"] | {"models"}
USES["index"] = {"kernels", "text", "core"}
USES["documents"] = {"text", "formats", "core"}
USES["engine"] = USES["training"] | {"training", "documents"}
USES["tasks"] = USES["engine"] | {"engine", "index"}
USES["hub"] = {"formats", "core"}
USES["api"] = USES["tasks"] | {"tasks", "hub"}

ENGINE = ("reading", "frame", "run", "training")

# Tasks that build on another one.
TASK_USES = {
    "multi_hop": {"question_answering"},  # the metrics and spans of its answers
    "question_answering": {"writing"},  # LED writes its answers
    "rerank": {"classification", "embedding"},  # its head; passages of a text
    "search": {"embedding", "rerank"},
    "retrieval": {"search", "embedding", "rerank"},
}

ABOVE_OPS = {"models", "training", "engine", "tasks", "api", "apps", "python"}

# The room, and for a single task its folder, that implements each public header.
PUBLIC = {
    "error": "core",
    "options": "core",
    "report": "core",
    "ranks": "core",
    "document": "core",
    "text": "text",
    "file_patterns": "text",
    "places": "text",
    "document_files": "documents",
    "files": "documents",
    "tables": "engine/frame",
    "training": "training",
    "model": "engine/run",
    "tasks": "tasks",
    "embedding": "tasks/embedding",
    "explanation": "tasks/classification",
    "reranking": "tasks/rerank",
    "search": "tasks/search",
    "search_files": "tasks/search",
    "generation": "tasks/writing",
    "language_model": "tasks/language_model",
    "evaluation": "api",
    "finetuning": "api",
    "hub": "hub",
    "checkpoint": "api",
    "analysis": "api",
    "retrieved": "api",
    "longformer": "api",
}

# Third-party headers that belong to certain rooms only.
THIRD_PARTY = {
    "hwy": {"kernels"},
    "sqlite3": {"index"},
    "curl": {"hub"},
    "pugixml": {"documents", "tasks"},
    "libstemmer": {"text"},
    "md4c": {"text"},
    "zlib": {"core", "apps"},
    "lzma": {"core"},
    "zstd": {"core"},
    "nanobind": {"python"},
    "CLI": {"apps"},
}

STANDARD = set(
    """algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv
    chrono cinttypes climits clocale cmath codecvt compare complex concepts condition_variable
    coroutine csetjmp csignal cstdarg cstddef cstdint cstdio cstdlib cstring ctime cuchar cwchar
    cwctype deque exception execution filesystem forward_list fstream functional future
    initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map
    memory memory_resource mutex new numbers numeric optional ostream queue random ranges ratio
    regex scoped_allocator semaphore set shared_mutex source_location span sstream stack stdexcept
    stop_token streambuf string string_view syncstream system_error thread tuple type_traits
    typeindex typeinfo unordered_map unordered_set utility valarray variant vector version""".split()
)

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TEAMS = re.compile(r"#\s*pragma\s+omp\s+(?!simd\b)|\bomp_set_\w+\s*\(")
TENSOR_DATA = re.compile(r"(\.|->)\s*(template\s+)?data\s*<|(\.|->)\s*raw\s*\(\s*\)")
COPIED_DATA = re.compile(r"(\.|->)\s*to_floats\s*\(")

# Files whose results leave the library, or that hold plain numbers for good.
COPIES_DATA = {
    "src/api/attention.cc",
    "src/api/bench.cc",
    "src/tasks/language_model/language_model.cc",
    "src/tasks/language_model/text_states.cc",
    "src/tasks/writing/generation.cc",
    "src/api/gradients.cc",
    "src/engine/run/model.cc",
    "src/engine/run/runner.cc",
    "src/engine/training/loss_pass.cc",
    "src/tasks/classification/row_passes.cc",
    "src/tasks/masked_lm/masked_lm.cc",
    "src/tasks/multi_hop/multi_hop_head.cc",
    "src/tasks/embedding/kind_vectors.cc",
    "src/tasks/embedding/sparse_vectors.cc",
    "src/tasks/embedding/vector_modules.cc",
}


def room_of(path):
    """The room of a path relative to the root: a folder of src/, public, apps or python."""
    parts = path.parts
    if parts[0] == "src":
        return parts[1]
    return "public" if parts[0] == "include" else parts[0]


def slice_of(path):
    """The folder inside engine or tasks that a path relative to src/ lies in; None elsewhere."""
    parts = path.parts
    return parts[1] if parts[0] in ("engine", "tasks") and len(parts) > 2 else None


def slice_breach(user, used):
    """Fault of one folder of engine or tasks that includes another one, or None."""
    room, mine, other = user.parts[0], slice_of(user), slice_of(used)
    if room != used.parts[0] or mine is None or other in (None, mine):
        return None
    if room == "engine":
        fine = other in ENGINE and ENGINE.index(other) < ENGINE.index(mine)
    else:
        fine = other in TASK_USES.get(mine, set())
    return None if fine else f"{room}/{mine} must not include {used.as_posix()}"


def public_breach(user, header):
    """Fault of including a public header, or None."""
    owner = PUBLIC.get(pathlib.PurePath(header).stem)
    if owner is None:
        return f"{header} has no row in PUBLIC of tools/check_layers.py"
    if user.parts[0] in ("apps", "python"):
        return None
    if user.parts[0] == "include":
        mine = PUBLIC.get(user.stem)
        if mine is None:
            return f"{user.name} has no row in PUBLIC of tools/check_layers.py"
        user = pathlib.PurePath(mine, user.name)
    else:
        user = user.relative_to("src")
    room, used = user.parts[0], owner.split("/")[0]
    if used != room and used not in USES.get(room, set()):
        return f"{room} must not include {header}, which belongs to {used}"
    if "/" not in owner:
        return None
    return slice_breach(user, pathlib.PurePath(owner, pathlib.PurePath(header).name))


def include_breach(path, room, quoted, header):
    """Fault of one include, or None."""
    first = header.split("/")[0]
    if "dnnl" in header:
        allowed = room == "kernels" and re.fullmatch(r"gemm.*\.(cc|h)", path.name)
        return None if allowed else "only src/kernels/gemm* includes oneDNN"
    if first == "boost":
        allowed = path.as_posix() in ("apps/server/http_reader.cc", "apps/server/http_session.cc")
        return None if allowed else "only apps/server/http_reader.cc and http_session.cc include Boost"
    if room == "public" and header not in STANDARD and first != "longformer":
        return f"public headers include std and longformer/ only, found {header}"
    if first == "longformer":
        return public_breach(path, header)
    if room == "public":
        return None
    # "hwy" of hwy/highway.h, "md4c" of md4c.h and of md4c-html.h
    package = re.split(r"[-.]", first)[0]
    if package in THIRD_PARTY and room not in THIRD_PARTY[package]:
        return f"{package} belongs to {', '.join(sorted(THIRD_PARTY[package]))}, found in {room}"
    if not quoted:
        return None
    if first in USES or first in ABOVE_OPS:
        if first == room or first in USES.get(room, set()):
            return slice_breach(path.relative_to("src"), pathlib.PurePath(header))
        if room in ("apps", "python"):
            return f"{room} sees public headers only, found {header}"
        return f"{room} must not include {first} ({header})"
    if "/" not in header and room not in ("apps", "python"):
        return f"an include names its room: {header}"
    return None


def team_breach(path, code):
    """Fault of a line that starts threads of OpenMP or changes its settings, or None."""
    if path.parts[:2] == ("src", "core") and path.stem == "threads":
        return None
    return "only src/core/threads.* begins parallel regions and sets OpenMP" if TEAMS.search(code) else None


def check_file(root, path):
    """All breaches of one file as lines."""
    relative = path.relative_to(root)
    room = room_of(relative)
    breaches = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            breach = include_breach(relative, room, match[1] == '"', match[2])
        elif room in ABOVE_OPS and TENSOR_DATA.search(line.split("//")[0]):
            breach = "code above ops does not touch tensor data"
        elif (
            room in ABOVE_OPS
            and COPIED_DATA.search(line.split("//")[0])
            and relative.as_posix() not in COPIES_DATA
        ):
            breach = "code above ops does not compute on copies of tensor data (to_floats)"
        else:
            breach = team_breach(relative, line.split("//")[0])
        if breach:
            breaches.append(f"{relative}:{number}: {breach}")
    return breaches


def check_tree(root):
    """All breaches of a tree; a room without a place in the order is one too."""
    root = pathlib.Path(root).resolve()
    breaches = []
    for folder in sorted((root / "src").glob("*/")):
        if folder.is_dir() and folder.name not in USES:
            breaches.append(f"src/{folder.name}: not a room of tools/check_layers.py")
    for top in ("include", "src", "apps", "python"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".h", ".cc", ".hpp", ".cpp"):
                breaches += check_file(root, path)
    return breaches


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent
    breaches = check_tree(root)
    print("\n".join(breaches), end="\n" if breaches else "")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
