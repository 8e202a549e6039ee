"""``prepare_forks``: has calls recorded that nobody makes, in a server, before ranks are forked from it.

What Python runs for the first time it writes into: the code of a function is specialised while it runs,
tables of modules are bound, caches are filled. A rank would do that anew, in a copy of its own of the
server's memory. After this the first calls of a rank cost a third less, which is 1 to 2 % of a module of
``suites/c10d`` on fresh ranks. Each call is made twice: the second is recorded in a shorter way
(``usual_calls.py``).
"""

from __future__ import annotations

import functools
import mmap
import sys
from collections.abc import Callable
from typing import Any

from harness.communication.call_log import LOG_BYTES, CallLog
from harness.communication.record.arguments import METHODS
from harness.communication.record.recorder import Recorder
from harness.communication.taps import taps
from harness.communication.taps.tap_state import Taps
from harness.communication.taps.work_taps import waiting
from harness.communication_call import Kind

# Python specialises a function in its first eight runs; each server makes these rounds, more save nothing.
ROUNDS = 10


class _Group:
    """Stands in for a process group, of which a recorder only wants the name."""

    group_name = "rehearsed"
    group_desc = "default_pg"

    def name(self) -> str:
        """The backend, which is none of torch's."""
        return "none"


class _Work:
    """Stands in for a work handle."""

    def wait(self) -> None:
        """Ends at once."""


class _Tensor:
    """Stands in for a tensor: a server has none, because it runs no operator."""

    is_meta = False

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self.shape = (2,)

    def numel(self) -> int:
        """The number of elements, as of its shape."""
        return 2

    def element_size(self) -> int:
        """The bytes of one element, as of float32."""
        return 4


# A user's function that makes the calls, each on two lines: whose code it is, is found out anew for each.
_FILE = "/rehearsed/test_x.py"
_SOURCE = """
def test_x(begin, calls, wait):
    begin()
    for call, given in calls:
        wait(call(*given))
    for call, given in calls:
        wait(call(*given))
"""


def prepare_forks() -> None:
    """Prepares what records calls in all processes that are forked from this one, if they can communicate."""
    state = taps.prepare()
    if state is None:
        return
    warm_up()
    if state.recorder is None and state.spare is None:
        # Made here, since a new rank that makes one writes to a hundred kilobytes of memory for that.
        state.spare = Recorder(CallLog(mmap.mmap(-1, LOG_BYTES)), taps.members_of)


@functools.cache
def warm_up() -> None:
    """Records calls in a log that is thrown away, some times each; once in a process.

    No operator runs, and nothing of torch's own state is changed.
    """
    made: dict[str, Any] = {}
    state = Taps()
    given = _rehearsed(state)
    memory = mmap.mmap(-1, LOG_BYTES)
    for _ in range(ROUNDS):
        state.recorder = Recorder(CallLog(memory), lambda group: (0, 1))
        exec(compile(_SOURCE, _FILE, "exec"), made)
        made["test_x"](*given)


def _rehearsed(state: Taps) -> tuple[Callable[[], None], list[tuple[Any, tuple[Any, ...]]], Any]:
    """What the user's function is given: wrappers around functions that do nothing, and their arguments."""
    c10d: Any = sys.modules["torch.distributed.distributed_c10d"]
    work, group, tensor = _Work(), _Group(), _Tensor(sys.modules["torch"].float32)
    one, each = [tensor], [[tensor, tensor]]
    gathered: list[Any] = [[]]  # torch itself is asked for the elements of an output, which must be a tensor
    arguments: dict[str, tuple[Any, ...]] = {
        "allreduce": (one, c10d.AllreduceOptions()),
        "barrier": (c10d.BarrierOptions(),),
        "broadcast": (one, c10d.BroadcastOptions()),
        "allgather": (gathered, one, c10d.AllgatherOptions()),
        "_allgather_base": (tensor, tensor, c10d.AllgatherOptions()),
        "_reduce_scatter_base": (tensor, tensor, c10d.ReduceScatterOptions()),
        "alltoall_base": (tensor, tensor, [], [], c10d.AllToAllOptions()),
        "gather": (gathered, one, c10d.GatherOptions()),
        "scatter": (one, each, c10d.ScatterOptions()),
    }
    calls = [
        (taps.recorded(lambda group, *given: work, name, METHODS[name], state), (group, *given))
        for name, given in arguments.items()
    ]
    making: Any = taps.making(lambda *args, **kwargs: None, state)

    def begin() -> None:
        recorder = state.recorder
        assert recorder is not None
        making(2, 0, (), "none", None, group.group_name, timeout=None)
        recorder.ended(recorder.uses_store("get", "key", Kind.STORE, 1.0, "prefix/"))

    return begin, calls, waiting(_Work.wait, state)
