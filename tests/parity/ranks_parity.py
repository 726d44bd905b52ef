#!/usr/bin/env python3
"""Trainings of several processes over gloo of torch.distributed, and documents that they read, compared with one process.

    python3 tests/parity/ranks_parity.py PROGRAM [--namespaces]

2 and 4 processes train classifiers of several families as one process with as many times the micro-batches; the weights are
compared after 4 steps. The Longformer then reads a document over 2 and 4 processes: vectors are compared, and the bytes that a
process sends for two lengths. One process of three is killed in both, and with --namespaces (root) the cable of one of two network
namespaces is cut: the others must end within seconds and leave a checkpoint. Exit code 1 when something differs.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import numpy
import safetensors.numpy

# Weights after four steps of Adam at a rate of 1e-3; it divides by the size of the gradient.
TOLERANCE = 2e-5
WORDS = "he was in the house she with him at and of to a for on".split()
FAMILIES = {
    "longformer": {"model_type": "longformer", "attention_window": 8},
    "bert": {"model_type": "bert"},
    "modernbert": {"model_type": "modernbert", "local_attention": 8},
    "big_bird": {"model_type": "big_bird", "block_size": 8, "num_random_blocks": 1},
}
SIZES = {"vocabulary": "bytes", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
         "max_position_embeddings": 512, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}  # fmt: skip


def member(model, data, output, options):
    """One process: the arguments are those of finetune."""
    import longformer_cpp
    from longformer_cpp.ranks import torch_ranks

    ranks = torch_ranks(timeout=options.pop("timeout", 60)) if "RANK" in os.environ else None
    victim, slow = options.pop("victim", None), options.pop("slow", 0)

    def told(step):
        time.sleep(slow)
        if ranks is not None and ranks.rank == victim and step["step"] == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        longformer_cpp.finetune(model, data, output, task="classify", callback=told, logging_steps=1, threads=1, ranks=ranks,
                                per_device_train_batch_size=1, learning_rate=1e-3, seed=3, **options)  # fmt: skip
    except longformer_cpp.Error as error:
        sys.exit(str(error))


def reader(model, data, output, options):
    """One process that reads documents; the vector and the bytes that were sent for each."""
    import longformer_cpp
    from longformer_cpp.ranks import torch_ranks

    ranks = torch_ranks(timeout=60) if "RANK" in os.environ else None
    loaded = longformer_cpp.load(model, threads=1, ranks=ranks)
    found = []
    try:
        for number, text in enumerate(pathlib.Path(data).read_text().splitlines()):
            if ranks is not None and ranks.rank == options.get("victim") and number == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            before = loaded.bytes_sent
            vector = loaded.encode(text, global_attention="cls", split=True)
            found.append({"vector": vector.tolist(), "sent": loaded.bytes_sent - before})
    except longformer_cpp.Error as error:
        sys.exit(str(error))
    if ranks is None or ranks.rank == 0:
        pathlib.Path(output).write_text(json.dumps(found))


def start(count, arguments, options, prefix=lambda rank: [], address="127.0.0.1", port=29531):
    processes = []
    for rank in range(count):
        place = {} if count == 1 else {"RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": address, "MASTER_PORT": str(port)}
        command = [*prefix(rank), sys.executable, __file__, "--member", *map(str, arguments), json.dumps(options)]
        processes.append(subprocess.Popen(command, env={**os.environ, **place}, stderr=subprocess.PIPE, text=True))
    return processes


def ended(processes, seconds=120):
    """Exit code and last words of each."""
    found = []
    for process in processes:
        _, errors = process.communicate(timeout=seconds)
        found.append((process.returncode, errors.strip().splitlines()[-1] if errors.strip() else ""))
    return found


def data_of(folder):
    path = folder / "train.jsonl"
    random = numpy.random.default_rng(5)
    rows = [{"text": " ".join(random.choice(WORDS, random.integers(2, 40))), "label": "ab"[i % 2]} for i in range(24)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def equal(folder, data):
    worst = 0.0
    for name, keys in FAMILIES.items():
        model = folder / name
        model.mkdir()
        (model / "config.json").write_text(json.dumps(SIZES | keys))
        for count in (2, 4):
            outputs = [folder / f"{name}-{count}-{kind}" for kind in ("one", "several")]
            for output, processes, steps in zip(outputs, (1, count), (count, 1), strict=True):
                options = {"max_steps": 4, "gradient_accumulation_steps": steps}
                for code, words in ended(start(processes, (model, data, output), options)):
                    assert code == 0, words
            one, several = (safetensors.numpy.load_file(output / "model.safetensors") for output in outputs)
            # A key's bias moves no probability: its gradient is rounding alone, which Adam makes large.
            used = [key for key in one if not key.endswith(("key.bias", "key_global.bias"))]
            difference = max(float(numpy.abs(one[key] - several[key]).max()) for key in used)
            print(f"{name}, {count} processes: largest difference of a weight {difference:.2g}", flush=True)
            worst = max(worst, difference)
    assert worst <= TOLERANCE, worst


def lost(folder, data):
    begin = time.monotonic()
    found = ended(start(3, (folder / "bert", data, folder / "lost"), {"max_steps": 50, "gradient_accumulation_steps": 1, "victim": 1}))
    print(f"one of three killed: {time.monotonic() - begin:.1f} s", *found, sep="\n  ", flush=True)
    assert found[1][0] == -signal.SIGKILL and found[0][0] == 1 and found[2][0] == 1
    assert (folder / "lost/checkpoint-3/model.safetensors").exists() and any("checkpoint-3" in words for _, words in found)


def documents(folder):
    """Documents of two lengths over the processes, with a global token."""
    texts = folder / "texts.txt"
    texts.write_text("\n".join(" ".join(WORDS[i * i % len(WORDS)] for i in range(count)) for count in (60, 110)))
    results = {}
    for count in (1, 2, 4):
        output = folder / f"read-{count}.json"
        for code, words in ended(start(count, (folder / "longformer-2-one", texts, output), {"reads": True})):
            assert code == 0, words
        results[count] = json.loads(output.read_text())
        vectors = [[numpy.array(row["vector"]) for row in results[number]] for number in (1, count)]
        difference = max(float(numpy.abs(one - several).max()) for one, several in zip(*vectors, strict=True))
        sent = [row["sent"] for row in results[count]]
        print(f"documents, {count} processes: largest difference of a vector {difference:.2g}, bytes sent {sent}", flush=True)
        assert difference <= 1e-5 and sent[0] == sent[1]
    begin = time.monotonic()
    found = ended(start(3, (folder / "longformer-2-one", texts, folder / "none.json"), {"reads": True, "victim": 1}))
    print(f"one of three readers killed: {time.monotonic() - begin:.1f} s", *found, sep="\n  ", flush=True)
    assert found[1][0] == -signal.SIGKILL and all(code == 1 and "an answer of the others" in words for code, words in (found[0], found[2]))


def run(*command):
    subprocess.run(command, check=True)


def cut(folder, data):
    """Two network namespaces, joined by a cable that is cut while they train."""
    names = ("lfranks0", "lfranks1")
    for name in names:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        run("ip", "netns", "add", name)
    try:
        run("ip", "link", "add", "lfveth0", "netns", names[0], "type", "veth", "peer", "name", "lfveth1", "netns", names[1])
        for rank, name in enumerate(names):
            run("ip", "netns", "exec", name, "ip", "addr", "add", f"10.77.0.{rank + 1}/24", "dev", f"lfveth{rank}")
            run("ip", "netns", "exec", name, "ip", "link", "set", f"lfveth{rank}", "up")
            run("ip", "netns", "exec", name, "ip", "link", "set", "lo", "up")
        output = folder / "cut"
        options = {"max_steps": 10_000, "gradient_accumulation_steps": 1, "timeout": 5, "slow": 0.05}
        os.environ["GLOO_SOCKET_IFNAME"] = "lfveth0,lfveth1"
        processes = start(2, (folder / "bert", data, output), options, address="10.77.0.1",
                          prefix=lambda rank: ["ip", "netns", "exec", names[rank], "env", f"GLOO_SOCKET_IFNAME=lfveth{rank}"])  # fmt: skip
        log = output / "log.jsonl"
        while not (log.exists() and len(log.read_text().splitlines()) > 5):
            time.sleep(0.1)
            assert all(process.poll() is None for process in processes), ended(processes)
        begin = time.monotonic()
        run("ip", "netns", "exec", names[1], "ip", "link", "set", "lfveth1", "down")
        found = ended(processes)
        print(f"a cable is cut: {time.monotonic() - begin:.1f} s", *found, sep="\n  ", flush=True)
        assert all(code == 1 for code, _ in found) and any("checkpoint-" in words for _, words in found)
    finally:
        for name in names:
            run("ip", "netns", "del", name)


def main():
    if sys.argv[1:2] == ["--member"]:
        model, data, output, options = sys.argv[2:]
        options = json.loads(options)
        return (reader if options.pop("reads", False) else member)(model, data, output, options)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="not used; every comparison has it")
    parser.add_argument("--namespaces", action="store_true", help="cut a cable between two network namespaces too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = data_of(folder)
        equal(folder, data)
        documents(folder)
        lost(folder, data)
        if options.namespaces:
            cut(folder, data)
    print("all equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
