"""Interfaces of processes that compute together; `longformer_cpp.ranks` makes them of torch.distributed and MPI."""

from __future__ import annotations

from typing import Any, Protocol


class Ranks(Protocol):
    """The processes that train one model together: each calls the same training with the same model and data, and reads its
    own examples of every step. After `sum` all of them hold the same numbers."""

    @property
    def rank(self) -> int: ...

    @property
    def count(self) -> int: ...

    def sum(self, values: Any) -> None:
        """Replaces the numbers of a NumPy array by their sums over all ranks, in place. An exception means that a rank
        does not answer any more."""


class DocumentRanks(Ranks, Protocol):
    """The processes that read each document together (`load`); they can train too."""

    def max(self, values: Any) -> None:
        """Replaces the numbers of an array by the greatest of all ranks, in place."""

    def exchange(self, to_before: Any, to_behind: Any, from_before: Any, from_behind: Any) -> None:
        """Sends arrays of bytes to the ranks before and behind this one, and fills the others with what these two send.
        Arrays are empty where there is no such rank, or nothing to send."""
