"""What ranks send: the collectives of a region, by what they do and how much of it this rank puts in."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch.distributed as dist
from torch import Tensor
from torch._C._dynamo.eval_frame import set_code_exec_strategy
from torch._dynamo.types import FrameAction, FrameExecStrategy

#: How often each operation was called with so many elements of this rank's.
Traffic = Counter[tuple[str, int]]

#: Methods of a process group that FSDP's traffic goes through, and what they do. Which of them torch calls
#: differs by version.
METHODS = {
    "_allgather_base": "all_gather",
    "all_gather_single": "all_gather",
    "allgather": "all_gather",
    "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter",
    "allreduce": "all_reduce",
    "broadcast": "broadcast",
}
#: Those that take what they write to first.
OUT_OF_PLACE = ("all_gather", "reduce_scatter")
#: The module that calls an operator, and so its collective.
OPERATORS = "torch._ops"
#: For code that dynamo is to leave alone with all that it calls. ``torch._dynamo.disable`` would say so too,
#: and count as a graph break.
SKIPPED = FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP)


@contextlib.contextmanager
def communicated() -> Iterator[Traffic]:
    """A region whose collectives are counted.

    Seen is all that FSDP starts by itself, and nothing that a compiled graph starts: its operators call the
    methods of a group from C++, which only a group in Python would show.
    """
    counted: Traffic = Counter()

    def tap(original: Callable[..., Any], operation: str) -> Callable[..., Any]:
        def method(group: dist.ProcessGroup, *tensors: Any, **options: Any) -> Any:
            put_in = tensors[operation in OUT_OF_PLACE]
            parts = [put_in] if isinstance(put_in, Tensor) else put_in
            if not _by_operator():
                counted[operation, sum(part.numel() for part in parts)] += 1
            return original(group, *tensors, **options)

        set_code_exec_strategy(method.__code__, SKIPPED)
        return method

    with contextlib.ExitStack() as taps:
        for owner, name in _own_methods(dist.ProcessGroup):
            wrapped = tap(getattr(owner, name), METHODS[name])
            taps.enter_context(mock.patch.object(owner, name, wrapped))
        yield counted


def _by_operator() -> bool:
    """Whether the caller's caller is an operator, perhaps by way of other methods of the group."""
    frame = sys._getframe(2)
    while frame.f_back is not None and not frame.f_globals["__name__"].startswith("torch."):
        frame = frame.f_back
    return frame.f_globals["__name__"] == OPERATORS


def _own_methods(kind: type) -> Iterator[tuple[type, str]]:
    """The METHODS that a class of groups has itself, and those of its subclasses, which are in Python."""
    yield from ((kind, name) for name in METHODS if name in vars(kind))
    for made in kind.__subclasses__():
        yield from _own_methods(made)
