"""Processes that compute together, each with the same calls: finetune(…, ranks=torch_ranks()) trains one model, and
load(…, ranks=torch_ranks()) reads each document together.

    torchrun --nproc-per-node 4 train.py      # one machine; --nnodes for several
    mpirun -n 4 python train.py
"""

from __future__ import annotations

import datetime
from typing import Any

from ._ranks import DocumentRanks, Ranks

__all__ = ["DocumentRanks", "Ranks", "mpi_ranks", "torch_ranks"]


class _TorchRanks:
    def __init__(self, group: Any) -> None:
        import torch.distributed

        self._group = group
        self.rank: int = torch.distributed.get_rank(group)
        self.count: int = torch.distributed.get_world_size(group)

    def sum(self, values: Any) -> None:
        import torch

        torch.distributed.all_reduce(torch.from_numpy(values), group=self._group)

    def max(self, values: Any) -> None:
        import torch

        torch.distributed.all_reduce(torch.from_numpy(values), torch.distributed.ReduceOp.MAX, self._group)

    def exchange(self, to_before: Any, to_behind: Any, from_before: Any, from_behind: Any) -> None:
        import torch

        def told(call: Any, rows: Any, rank: int) -> Any:
            peer = rank if self._group is None else torch.distributed.get_global_rank(self._group, rank)
            return call(torch.from_numpy(rows), peer, self._group)

        before, behind, under_way = self.rank - 1, self.rank + 1, []
        for call, rows, rank in ((torch.distributed.isend, to_before, before), (torch.distributed.isend, to_behind, behind),
                                 (torch.distributed.irecv, from_before, before), (torch.distributed.irecv, from_behind, behind)):  # fmt: skip
            if rows.size:
                under_way.append(told(call, rows, rank))
        for one in under_way:
            one.wait()


class _MpiRanks:
    def __init__(self, communicator: Any) -> None:
        self._communicator = communicator
        self.rank: int = communicator.Get_rank()
        self.count: int = communicator.Get_size()

    def sum(self, values: Any) -> None:
        from mpi4py import MPI

        self._communicator.Allreduce(MPI.IN_PLACE, values)

    def max(self, values: Any) -> None:
        from mpi4py import MPI

        self._communicator.Allreduce(MPI.IN_PLACE, values, op=MPI.MAX)

    def exchange(self, to_before: Any, to_behind: Any, from_before: Any, from_behind: Any) -> None:
        from mpi4py import MPI

        before, behind = self.rank - 1, self.rank + 1
        under_way = [self._communicator.Irecv(rows, rank) for rows, rank in ((from_before, before), (from_behind, behind)) if rows.size]
        under_way += [self._communicator.Isend(rows, rank) for rows, rank in ((to_before, before), (to_behind, behind)) if rows.size]
        MPI.Request.Waitall(under_way)


def torch_ranks(group: Any = None, timeout: float = 600) -> DocumentRanks:
    """The processes of `torchrun`, or of a group of torch.distributed that sums on the CPU (gloo). A rank that does not
    answer within so many seconds is lost; where a process ended, the others know at once."""
    import torch.distributed

    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=timeout))
    return _TorchRanks(group)


def mpi_ranks(communicator: Any = None) -> DocumentRanks:
    """The processes of `mpirun`, through mpi4py. Most MPI ends all processes when one ends: what a training then leaves is
    the last checkpoint of save_steps."""
    from mpi4py import MPI

    return _MpiRanks(MPI.COMM_WORLD if communicator is None else communicator)
