"""A process group that only notes what it is asked for, and what each collective is to ask of one."""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from harness import MultiProcessTestCase

#: How many ranks the group says that it has.
SIZE = 3
#: Which of them this process is.
RANK = 1
TIMEOUT = timedelta(seconds=50)


class Handle(dist._Work):
    """Counts who waits for it."""

    waits = 0

    def wait(self, timeout=None):
        self.waits += 1
        return True


class Noting(dist.ProcessGroup):
    """Notes the name and the arguments of each call, and gives a handle."""

    def __init__(self, rank, size):
        super().__init__(rank, size)
        self.calls = []

    def getBackendName(self):
        return "noting"

    def noted(self, name, args):
        self.calls.append((name, args))
        self.handle = Handle()
        return self.handle


class Named(Noting):
    """Keeps its name, which torch keeps with the backends of other groups."""

    def setGroupName(self, name):
        self.named = name

    def getGroupName(self):
        return self.named


#: What releases before 2.13 call a method.
OLD_NAMES = {
    "_allgather_base": "all_gather_single",
    "_reduce_scatter_base": "reduce_scatter_single",
    "alltoall_base": "all_to_all_single",
    "allgather_into_tensor_coalesced": "all_gather_single_coalesced",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_single_coalesced",
}
METHODS = [
    *("allreduce", "allreduce_coalesced", "broadcast", "reduce", "allgather", "allgather_coalesced"),
    *("gather", "scatter", "reduce_scatter", "alltoall", "barrier", "send", "recv", "recv_anysource"),
]


def _noting(name):
    return lambda self, *args, **named: self.noted(name, (*args, *named.values()))


for _name in METHODS:
    setattr(Noting, _name, _noting(_name))
for _old, _name in OLD_NAMES.items():
    setattr(Noting, _old, _noting(_name))
    setattr(Noting, _name, _noting(_name))


class NotingTestCase(MultiProcessTestCase):
    """One process whose default group only notes; ``made`` has each group, and what it was made with."""

    rank_modes = ("fresh",)  # a backend that is registered stays so
    world_size = 1

    def setUpRank(self):
        super().setUpRank()
        self.made = []

        def create(store, rank, size, timeout):
            group = Noting(rank, size)
            self.made.append((group, rank, size, timeout))
            return group

        dist.Backend.register_backend("noting", create, devices=["cpu"])
        dist.init_process_group("noting", store=dist.HashStore(), rank=RANK, world_size=SIZE, timeout=TIMEOUT)
        self.group = dist.group.WORLD


def rows(count=2, dtype=torch.float32):
    """Numbers of which no two are alike."""
    return torch.arange(count * 2.0).reshape(count, 2).to(dtype)


def collectives():
    """Each collective: its method, what of the arguments the backend gets, the call, and its option beside.

    The call takes ``group``, and ``async_op`` where there is a handle to ask for.
    """
    one, other, six, list_of = rows(), rows() + 1, rows(6), [rows() + n for n in range(SIZE)]
    more = [rows() + 10 * n for n in range(SIZE)]
    op = ReduceOp.MAX
    return {
        "all_reduce": ("allreduce", ([one],), lambda **k: dist.all_reduce(one, op, **k), {"reduceOp": op}),
        "all_reduce of the default": (
            "allreduce",
            ([one],),
            lambda **k: dist.all_reduce(one, **k),
            {"reduceOp": ReduceOp.SUM},
        ),
        "reduce": (
            "reduce",
            ([one],),
            lambda **k: dist.reduce(one, 2, op, **k),
            {"reduceOp": op, "rootRank": 2},
        ),
        "broadcast": (
            "broadcast",
            ([one],),
            lambda **k: dist.broadcast(one, 2, **k),
            {"rootRank": 2, "rootTensor": 0},
        ),
        "all_gather": ("allgather", ([list_of], [one]), lambda **k: dist.all_gather(list_of, one, **k), {}),
        "all_gather_into_tensor": (
            "all_gather_single",
            (six, one),
            lambda **k: dist.all_gather_into_tensor(six, one, **k),
            {},
        ),
        "gather": (
            "gather",
            ([list_of], [one]),
            lambda **k: dist.gather(one, list_of, 1, **k),
            {"rootRank": 1},
        ),
        "gather of another": (
            "gather",
            ([], [one]),
            lambda **k: dist.gather(one, None, 2, **k),
            {"rootRank": 2},
        ),
        "scatter": (
            "scatter",
            ([one], [list_of]),
            lambda **k: dist.scatter(one, list_of, 1, **k),
            {"rootRank": 1},
        ),
        "scatter of another": (
            "scatter",
            ([one], []),
            lambda **k: dist.scatter(one, None, 2, **k),
            {"rootRank": 2},
        ),
        "reduce_scatter": (
            "reduce_scatter",
            ([one], [list_of]),
            lambda **k: dist.reduce_scatter(one, list_of, op, **k),
            {"reduceOp": op},
        ),
        "reduce_scatter_tensor": (
            "reduce_scatter_single",
            (one, six),
            lambda **k: dist.reduce_scatter_tensor(one, six, op, **k),
            {"reduceOp": op},
        ),
        "all_to_all_single": (
            "all_to_all_single",
            (one, six, [1, 0, 1], [2, 1, 3]),
            lambda **k: dist.all_to_all_single(one, six, [1, 0, 1], [2, 1, 3], **k),
            {},
        ),
        "all_to_all_single of equal parts": (
            "all_to_all_single",
            (six, other, [], []),
            lambda **k: dist.all_to_all_single(six, other, **k),
            {},
        ),
        "all_to_all": ("alltoall", (list_of, more), lambda **k: dist.all_to_all(list_of, more, **k), {}),
    }
