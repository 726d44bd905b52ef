"""Several processes that train, or read a document, together: they equal one process, and a process that dies ends the others,
of a training with a checkpoint."""

import json
import multiprocessing
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import types

import longformer_cpp
import numpy as np
import pytest
from test_training import data, text, weights  # noqa: F401

OPTIONS = {"task": "classify", "learning_rate": 1e-3, "seed": 7, "threads": 1, "per_device_train_batch_size": 1}


class Pipes:
    """Ranks of processes of this machine: rank 0 adds up what the others send."""

    def __init__(self, rank, others):
        self.rank, self.others = rank, others
        self.count = len(others) + 1 if rank == 0 else others[0][1]

    def sum(self, values):
        if self.rank == 0:
            for pipe in self.others:
                values += np.frombuffer(pipe.recv_bytes(), values.dtype)
            for pipe in self.others:
                pipe.send_bytes(values.tobytes())
        else:
            pipe = self.others[0][0]
            pipe.send_bytes(values.tobytes())
            values[:] = np.frombuffer(pipe.recv_bytes(), values.dtype)


class NeighbourPipes(Pipes):
    """Rank 0 passes on what the others send."""

    def shared(self, mine):
        """Messages of all ranks, in all of them."""
        if self.rank == 0:
            everything = [mine, *(pipe.recv() for pipe in self.others)]
            for pipe in self.others:
                pipe.send(everything)
            return everything
        self.others[0][0].send(mine)
        return self.others[0][0].recv()

    def max(self, values):
        values[:] = np.max(self.shared(values), axis=0)

    def exchange(self, to_before, to_behind, from_before, from_behind):
        everything = self.shared((to_before, to_behind))
        from_before[:] = everything[self.rank - 1][1] if self.rank else []
        from_behind[:] = everything[self.rank + 1][0] if self.rank + 1 < self.count else []


def member(rank, others, closed, out, work, arguments, options):
    for pipe in closed:
        pipe.close()
    try:
        result = work(*arguments, ranks=NeighbourPipes(rank, others), **options(rank))
        out.put((rank, "", result.steps, result.last_checkpoint))
    except longformer_cpp.Error as error:
        out.put((rank, str(error), 0, ""))


def together(count, work, arguments, options):
    """The end of each rank that lived to tell it."""
    context = multiprocessing.get_context("fork")
    pairs = [context.Pipe() for _ in range(1, count)]
    out = context.Queue()
    processes = []
    for rank in range(count):
        others = [mine for mine, _ in pairs] if rank == 0 else [(pairs[rank - 1][1], count)]
        mine = others if rank == 0 else [others[0][0]]
        closed = [pipe for pair in pairs for pipe in pair if pipe not in mine]
        processes.append(context.Process(target=member, args=(rank, others, closed, out, work, arguments, options)))
    for process in processes:
        process.start()
    for pair in pairs:
        for pipe in pair:
            pipe.close()
    for process in processes:
        process.join(60)
        assert process.exitcode is not None, "a rank hangs"
    return sorted(out.get(timeout=5) for process in processes if process.exitcode == 0)


@pytest.mark.parametrize("count", [2, 4])
def test_ranks_are_one_process(folder, data, tmp_path, count):  # noqa: F811
    path = folder("tiny_longformer_classifier")
    longformer_cpp.finetune(path, data, tmp_path / "one", max_steps=6, gradient_accumulation_steps=count, **OPTIONS)
    options = {**OPTIONS, "max_steps": 6, "gradient_accumulation_steps": 1}
    found = together(count, longformer_cpp.finetune, (path, data, tmp_path / "several"), lambda rank: options)
    assert [(rank, error, steps) for rank, error, steps, _ in found] == [(rank, "", 6) for rank in range(count)]
    one, several = (longformer_cpp.load(tmp_path / name) for name in ("one", "several"))
    states = [model([model.tokenizer.encode("he was in the house").ids]).last_hidden_state for model in (one, several)]
    assert np.abs(np.asarray(states[0][0]) - np.asarray(states[1][0])).max() <= 2e-6


def test_every_training_takes_ranks(folder, text, data, tmp_path):  # noqa: F811
    options = {"max_steps": 2, "seed": 1, "threads": 1, "per_device_train_batch_size": 1, "gradient_accumulation_steps": 1}
    found = together(2, longformer_cpp.pretrain_mlm, (folder("tiny_longformer_classifier"), text, tmp_path / "mlm"), lambda rank: options)
    assert [error for _, error, _, _ in found] == ["", ""]
    config = {"model_type": "longformer-lm", "vocabulary": "bytes", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    for attention, error in (("dense", ""), ("recurrent", "ranks: expected one")):
        place = tmp_path / f"{attention}.json"
        place.write_text(json.dumps({**config, "attention": attention}))
        more = {**options, "config": place, "length": 16}
        found = together(2, longformer_cpp.pretrain_lm, (text, tmp_path / attention), lambda rank, more=more: more)
        assert all(said == error if not error else error in said for _, said, _, _ in found), found


@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_dies_leaves_a_checkpoint(folder, data, tmp_path, victim):  # noqa: F811
    def options(rank):
        def die(step):
            if rank == victim and step["step"] == 3:
                os.kill(os.getpid(), signal.SIGKILL)

        return {**OPTIONS, "max_steps": 6, "gradient_accumulation_steps": 1, "logging_steps": 1, "callback": die}

    path = folder("tiny_longformer_classifier")
    found = together(2, longformer_cpp.finetune, (path, data, tmp_path / "out"), options)
    assert len(found) == 1 and "of 2: expected an answer" in found[0][1] and "checkpoint-3" in found[0][1]
    rest = {**OPTIONS, "max_steps": 6, "gradient_accumulation_steps": 1, "resume_from_checkpoint": "last"}
    assert [steps for _, _, steps, _ in together(2, longformer_cpp.finetune, (path, data, tmp_path / "out"), lambda rank: rest)] == [6, 6]
    whole = {key: value for key, value in rest.items() if key != "resume_from_checkpoint"}
    together(2, longformer_cpp.finetune, (path, data, tmp_path / "whole"), lambda rank: whole)
    assert weights(tmp_path / "out") == weights(tmp_path / "whole")


def test_a_callback_that_raises_is_an_error_of_all(folder, data, tmp_path):  # noqa: F811
    def options(rank):
        def refuse(step):
            if rank == 1 and step["step"] == 3:
                raise longformer_cpp.Error("no more")

        return {**OPTIONS, "max_steps": 6, "gradient_accumulation_steps": 1, "logging_steps": 1, "callback": refuse}

    path = folder("tiny_longformer_classifier")
    (_, first, _, _), (_, second, _, _) = together(2, longformer_cpp.finetune, (path, data, tmp_path / "out"), options)
    assert "another one was stopped behind step 3" in first and "checkpoint-3" in first
    assert second == "no more"


def test_wrong_ranks(folder, data, tmp_path):  # noqa: F811
    class Two:
        rank, count = 2, 2

    with pytest.raises(ValueError, match="ranks"):
        longformer_cpp.finetune(folder("tiny_longformer_classifier"), data, tmp_path / "out", ranks=Two(), **OPTIONS)
    with pytest.raises(AttributeError):
        longformer_cpp.finetune(folder("tiny_longformer_classifier"), data, tmp_path / "out", ranks=7, **OPTIONS)


TEXT = "he was in the house , and she was not in it . he said to her that it was his"


def read(path, ranks, dies=False):
    """Vector, classes and what was sent, in the fields of a training."""
    model = longformer_cpp.load(path, threads=1, ranks=ranks)
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)
    found = [model.encode(TEXT), model.classify([TEXT])[0].logits]
    states = model([model.tokenizer.encode(TEXT).ids]).last_hidden_state[0]
    return types.SimpleNamespace(steps=[np.asarray(one).tolist() for one in (*found, states)], last_checkpoint=model.bytes_sent)


@pytest.mark.parametrize("count", [2, 4])
def test_a_document_over_ranks(folder, count):
    path = folder("tiny_longformer_classifier")
    one = read(path, None).steps
    found = together(count, read, (path,), lambda rank: {})
    assert [(rank, error) for rank, error, _, _ in found] == [(rank, "") for rank in range(count)]
    for _, _, results, sent in found:
        assert sent > 0
        for result, expected in zip(results, one, strict=True):
            assert np.abs(np.asarray(result) - np.asarray(expected)).max() <= 1e-5


def test_a_rank_that_dies_ends_the_others(folder):
    found = together(3, read, (folder("tiny_longformer_classifier"),), lambda rank: {"dies": rank == 1})
    assert [rank for rank, _, _, _ in found] == [0, 2]
    assert all(f"rank {rank} of 3: expected an answer of the others, found" in error for rank, error, _, _ in found), found


def test_models_and_documents_that_are_refused(folder):
    class Alone:
        rank, count = 0, 2

        def sum(self, values):
            values[:] = values[0]

    with pytest.raises(longformer_cpp.Error, match="windows in all layers.*bert, in whose layer 0 every token sees every token"):
        longformer_cpp.load(folder("tiny_bert"), ranks=Alone())
    model = longformer_cpp.load(folder("tiny_longformer_classifier"), ranks=Alone())
    with pytest.raises(longformer_cpp.Error, match="at least .* tokens for 2 ranks"):
        model.encode("he")
    with pytest.raises(longformer_cpp.Error, match=r"max\(\) and exchange\(\)"):
        model.encode(TEXT)
    with pytest.raises(longformer_cpp.Error, match="ranks"):
        pickle.dumps(model)


def test_the_example(folder, tmp_path):
    """Without a launcher it is one process."""
    (tmp_path / "book.txt").write_text(TEXT)
    example = pathlib.Path(__file__).resolve().parents[2] / "examples" / "corpus" / "one_document.py"
    out = subprocess.run([sys.executable, example, folder("tiny_longformer_classifier"), tmp_path / "book.txt"], capture_output=True, text=True, check=True)
    model = longformer_cpp.load(folder("tiny_longformer_classifier"))
    tokens = len(model.tokenizer.encode(TEXT).ids)
    first, second = out.stdout.splitlines()
    assert first.startswith(f"{tokens} tokens, ") and first.endswith(" 0 bytes sent by this one")
    assert second.split() == [f"{number:.4f}" for number in model.encode(TEXT)[:4]]
