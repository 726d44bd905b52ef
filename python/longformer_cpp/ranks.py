"""Processes that train one model together: finetune(…, ranks=torch_ranks()) in each of them.

    torchrun --nproc-per-node 4 train.py      # one machine; --nnodes for several
    mpirun -n 4 python train.py
"""

from __future__ import annotations

import datetime
from typing import Any

from ._training import Ranks

__all__ = ["Ranks", "mpi_ranks", "torch_ranks"]


class _TorchRanks:
    def __init__(self, group: Any) -> None:
        import torch.distributed

        self._group = group
        self.rank: int = torch.distributed.get_rank(group)
        self.count: int = torch.distributed.get_world_size(group)

    def sum(self, values: Any) -> None:
        import torch

        torch.distributed.all_reduce(torch.from_numpy(values), group=self._group)


class _MpiRanks:
    def __init__(self, communicator: Any) -> None:
        self._communicator = communicator
        self.rank: int = communicator.Get_rank()
        self.count: int = communicator.Get_size()

    def sum(self, values: Any) -> None:
        from mpi4py import MPI

        self._communicator.Allreduce(MPI.IN_PLACE, values)


def torch_ranks(group: Any = None, timeout: float = 600) -> Ranks:
    """The processes of `torchrun`, or of a group of torch.distributed that sums on the CPU (gloo). A rank that does not
    answer within so many seconds is lost; where a process ended, the others know at once."""
    import torch.distributed

    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=timeout))
    return _TorchRanks(group)


def mpi_ranks(communicator: Any = None) -> Ranks:
    """The processes of `mpirun`, through mpi4py. Most MPI ends all processes when one ends: what is left then is the last
    checkpoint of save_steps."""
    from mpi4py import MPI

    return _MpiRanks(MPI.COMM_WORLD if communicator is None else communicator)
