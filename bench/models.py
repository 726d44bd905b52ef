#!/usr/bin/env python3
"""Times encoders of published sizes with random weights: which model for which document on this machine.

    python3 bench/models.py [--models modernbert-base,bge-m3] [-n 512,4096,8192] [--dtype fp32,bf16,int8]
                            [--peers transformers,openvino,onnxruntime] [--rounds 1] [--binary build/longformer]

The sizes stand in bench/models.json. Lengths that a model does not read are left out. Each figure comes from a process
of its own; with --peers, `transformers` (sdpa where the family has it; no int8), OpenVINO and ONNX Runtime (no bf16; packages onnxruntime, onnx and
onnxscript) take turns with this program, each with its own export of the `transformers` model for documents of n tokens. Their int8 is what their
own tools make of it: nncf's quantize for transformers (package nncf), and quantize_dynamic. Prints Markdown, and one JSON object per measurement to
--output.
"""

import argparse
import json
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import tempfile

import peers

SIZES = json.loads(pathlib.Path(__file__).with_name("models.json").read_text())
# The longest document of families whose config.json may leave it out.
LONGEST = {"bert": 512, "big_bird": 4096, "modernbert": 8192}


def longest(config):
    positions = config.get("max_position_embeddings", LONGEST.get(config["model_type"]))
    return positions - (config["pad_token_id"] + 1 if config["model_type"] in ("longformer", "xlm-roberta") else 0)


def cpu():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def measure_ours(config, n, dtype, options):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(config, file)
        file.flush()
        command = [options.binary, "bench", "model", "--config", file.name, "-n", str(n), "--dtype", dtype, "--json"]
        command += ["-r", str(options.repeats), "--threads", str(options.threads)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(printed.splitlines()[-1])


def torch_model(config, dtype="fp32"):
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    config = dict(config)
    made = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    return transformers.AutoModel.from_config(made).to(getattr(torch, DTYPES[dtype])).eval()


def torch_ids(n):
    import torch

    return torch.randint(5, 30000, (1, n))


def transformers_run(config, n, dtype, options):
    import torch

    if dtype == "int8":
        return None
    torch.set_num_threads(options.threads)
    model, ids = torch_model(config, dtype), torch_ids(n)
    torch.set_grad_enabled(False)
    return lambda: model(input_ids=ids)


def hidden_states(config):
    """The module that exporters read: ids in, hidden states out, no mask of n² numbers for what is not padded."""
    import torch

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = torch_model(config)

        def forward(self, ids):
            return self.model(input_ids=ids, return_dict=False)[0]

    return Encoder().eval()


def openvino_export(config, n, file, dtype):
    import openvino
    import torch

    if dtype == "int8":
        import nncf

        whole = openvino.Core().read_model(str(file).replace("-int8", ""))
        samples = nncf.Dataset([torch_ids(n).numpy() for _ in range(8)])
        openvino.save_model(nncf.quantize(whole, samples, model_type=nncf.ModelType.TRANSFORMER), file)
        return
    with torch.no_grad():
        converted = openvino.convert_model(hidden_states(config), example_input=torch_ids(n), input=[1, n])
    openvino.save_model(converted, file, compress_to_fp16=False)


def openvino_run(config, n, dtype, options):
    import openvino

    # Beside int8, what the CPU is fastest with.
    settings = {"INFERENCE_PRECISION_HINT": {"fp32": "f32", "bf16": "bf16", "int8": "bf16"}[dtype], "NUM_STREAMS": 1}
    settings |= {"INFERENCE_NUM_THREADS": options.threads, "PERFORMANCE_HINT": "LATENCY"}
    core = openvino.Core()
    request = core.compile_model(core.read_model(options.exported), "CPU", settings).create_infer_request()
    ids = torch_ids(n).numpy()
    return lambda: request.infer([ids])


def onnxruntime_export(config, n, file, dtype):
    import torch

    if dtype == "int8":
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(str(file).replace("-int8", ""), file, weight_type=QuantType.QInt8, per_channel=True)
        return
    torch.onnx.export(hidden_states(config), (torch_ids(n),), file, dynamo=True, external_data=True)


def onnxruntime_run(config, n, dtype, options):
    import onnxruntime

    if dtype == "bf16":
        return None
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    session = onnxruntime.InferenceSession(options.exported, settings, providers=["CPUExecutionProvider"])
    inputs = {session.get_inputs()[0].name: torch_ids(n).numpy()}
    return lambda: session.run(None, inputs)


#: Names of torch.
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "int8": None}
#: The call that runs a model, and the one that writes the file which it reads.
PEERS = {
    "transformers": (transformers_run, None),
    "openvino": (openvino_run, openvino_export),
    "onnxruntime": (onnxruntime_run, onnxruntime_export),
}


def run_peer(peer, config, n, dtype, options, more):
    """The output of a process of its own; None if it fails."""
    command = [sys.executable, __file__, "--child", json.dumps(config), "--peers", peer, "-n", str(n), "--dtype", dtype]
    command += ["--threads", str(options.threads), "--repeats", str(options.repeats), *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or [f"ended by signal {-done.returncode}"])[-1]
        print(f"{peer} at n {n} {dtype} {' '.join(more[2:])}: {said}", file=sys.stderr, flush=True)
        return None
    return done.stdout


def measure_peer(peer, config, n, dtype, options, folder):
    """Seconds and memory of another package; None if it cannot run the model. What it reads stays in the folder."""
    ending = {"openvino": ".xml"}.get(peer, ".onnx")
    for kind, of in (("", "fp32"), ("-int8", "int8")):
        exported = pathlib.Path(folder, peer, f"model{kind}{ending}")
        if PEERS[peer][1] and not exported.exists():
            exported.parent.mkdir(exist_ok=True)
            run_peer(peer, config, n, of, options, ["--exported", str(exported), "--export"])
        if PEERS[peer][1] and not exported.exists():
            return None
        if dtype != "int8":
            break
    printed = run_peer(peer, config, n, dtype, options, ["--exported", str(exported)])
    return printed and json.loads(printed.splitlines()[-1])


def child(options):
    config, n, dtype = json.loads(options.child), options.n[0], options.dtype[0]
    run, export = PEERS[options.peers[0]]
    if options.export:
        return export(config, n, options.exported, dtype)
    once = run(config, n, dtype, options)
    if once is None:
        print("null")
        return 0
    seconds = peers.timed(once, options.repeats)
    print(json.dumps({"seconds": seconds, "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
    return 0


def row_of(name, n, dtype, ours, others):
    seconds = statistics.median(r["seconds"] for r in ours)
    cells = [name, f"{n:,}", dtype, f"{seconds:.3g} s", f"{n / seconds:,.0f}"]
    cells += [f"{max(r['peak_rss_bytes'] for r in ours) / 1e9:.2f} GB"]
    cells += [f"{statistics.median(r['fraction_of_bound'] for r in ours):.2f}"]
    for theirs in others:
        if None in theirs:
            cells += ["–", "–"]
            continue
        other = statistics.median(r["seconds"] for r in theirs)
        cells += [f"{other:.3g} s ({other / seconds:.2f} ×)", f"{max(r['peak_rss_bytes'] for r in theirs) / 1e9:.2f} GB"]
    return f"| {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda s: s.split(","), default=list(SIZES), help=", ".join(SIZES))
    parser.add_argument("-n", type=lambda s: [int(x) for x in s.split(",")], default=[512, 4096, 8192], help="lengths: 512,4096")
    parser.add_argument("--dtype", type=lambda s: s.split(","), default=["fp32", "bf16"])
    parser.add_argument("--peers", type=lambda s: s.split(","), default=[], help=", ".join(PEERS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=1, help="timed runs in each process, behind a warm-up")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--binary", default="build/longformer")
    parser.add_argument("--output", type=pathlib.Path, help="file for one JSON object per measurement")
    parser.add_argument("--cache", help="folder for exported models, up to 2.3 GB (that of the system)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--exported", help=argparse.SUPPRESS)
    parser.add_argument("--export", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    for option, known in (("models", SIZES), ("peers", PEERS), ("dtype", DTYPES)):
        unknown = sorted(set(getattr(options, option)) - set(known))
        if unknown:
            parser.error(f"--{option}: expected some of {', '.join(known)}, found {', '.join(unknown)}")
    if options.cache:
        pathlib.Path(options.cache).mkdir(parents=True, exist_ok=True)
    head = "| model | tokens | dtype | time | tokens/s | peak | bound |" + "".join(f" {p} | peak |" for p in options.peers)
    print(f"{cpu()}, {options.threads} threads\n\n{head}\n|{'---|' * (head.count('|') - 1)}", flush=True)
    for name in options.models:
        for n in [n for n in options.n if n <= longest(SIZES[name])]:
            with tempfile.TemporaryDirectory(dir=options.cache) as folder:
                for dtype in options.dtype:
                    found = {peer: [] for peer in ("ours", *options.peers)}
                    for _ in range(options.rounds):
                        for peer, rows in found.items():
                            model = (SIZES[name], n, dtype, options)
                            rows.append(measure_ours(*model) if peer == "ours" else measure_peer(peer, *model, folder))
                            if options.output and rows[-1]:
                                row = {"peer": peer, "model": name, "n": n, "dtype": dtype} | rows[-1]
                                with options.output.open("a") as file:
                                    file.write(json.dumps(row) + "\n")
                    ours = found.pop("ours")
                    print(row_of(name, n, dtype, ours, found.values()), flush=True)


if __name__ == "__main__":
    sys.exit(main())
