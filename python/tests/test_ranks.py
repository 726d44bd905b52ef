"""Several processes that train together: they equal one process, and a process that dies leaves a checkpoint."""

import json
import multiprocessing
import os
import signal

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


def member(rank, others, closed, out, work, arguments, options):
    for pipe in closed:
        pipe.close()
    try:
        result = work(*arguments, ranks=Pipes(rank, others), **options(rank))
        out.put((rank, "", result.steps, result.last_checkpoint))
    except longformer_cpp.Error as error:
        out.put((rank, str(error), 0, ""))


def together(count, work, arguments, options):
    """What became of each rank that lived to tell it."""
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


def test_wrong_ranks(folder, data, tmp_path):  # noqa: F811
    class Two:
        rank, count = 2, 2

    with pytest.raises(ValueError, match="ranks"):
        longformer_cpp.finetune(folder("tiny_longformer_classifier"), data, tmp_path / "out", ranks=Two(), **OPTIONS)
    with pytest.raises(AttributeError):
        longformer_cpp.finetune(folder("tiny_longformer_classifier"), data, tmp_path / "out", ranks=7, **OPTIONS)
