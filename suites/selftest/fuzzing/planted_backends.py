"""Backends that wrap gloo and have one fault each, for programs that are to find it."""

from __future__ import annotations

import os
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

#: What torch calls on a group, by the name that the backend has for it.
CALLS = {
    **{
        name: name
        for name in (
            *("allreduce", "broadcast", "reduce", "allgather", "gather", "scatter", "reduce_scatter"),
            *("alltoall", "alltoall_base", "_allgather_base", "_reduce_scatter_base", "barrier"),
            *("send", "recv", "allreduce_coalesced", "allgather_coalesced"),
        )
    },
    "all_gather_single": "_allgather_base",
    "reduce_scatter_single": "_reduce_scatter_base",
    "all_to_all_single": "alltoall_base",
}
#: The same of what Python can only ask a whole group for.
CALLS_OF_GROUPS = {
    "allgather_into_tensor_coalesced": "allgather_into_tensor_coalesced",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
}


class AroundGloo(dist.ProcessGroup):  # type: ignore[misc]  # mypy is told not to read torch
    """A process group that passes each call on to gloo."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self.gloo = dist.ProcessGroupGloo(store, rank, size, timeout)
        self.whole = dist.ProcessGroup(store, rank, size)
        self.whole._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, self.gloo)
        self.name = ""
        forwarded = {name: getattr(self.gloo, inner) for name, inner in CALLS.items()}
        forwarded |= {name: self.unseen(inner) for name, inner in CALLS_OF_GROUPS.items()}
        for name, call in forwarded.items():
            if name not in type(self).__dict__:
                setattr(self, name, call)

    def unseen(self, name: str) -> Any:
        """A method of the inner group, which nobody knows as a group: its calls are not recorded."""
        method = getattr(dist.ProcessGroup, name)
        return partial(getattr(method, "__wrapped__", method), self.whole)

    def getBackendName(self) -> str:
        """The backend's name, for which torch calls this method."""
        return "planted"

    def setGroupName(self, name: str) -> None:
        """Takes the name, which torch has this method keep."""
        self.name = name

    def getGroupName(self) -> str:
        """The name by which torch forgets a group that is destroyed."""
        return self.name


class DropsAPart(AroundGloo):
    """A backend whose all-reduce leaves out the last rank's tensor."""

    def allreduce(self, tensors: list[torch.Tensor], options: Any) -> Any:
        """Reduces with zeros in place of the last rank's tensor."""
        if self.rank() == self.size() - 1:
            for tensor in tensors:
                tensor.zero_()
        return self.gloo.allreduce(tensors, options)


class MixesUpRanks(AroundGloo):
    """A backend whose all_gather exchanges the first two ranks in groups of three or more ranks."""

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], options: Any) -> Any:
        """Gathers into lists whose first two tensors are exchanged."""
        if self.size() > 2:
            outputs = [[parts[1], parts[0], *parts[2:]] for parts in outputs]
        return self.gloo.allgather(outputs, inputs, options)


class Unwaited(dist._Work):  # type: ignore[misc]  # as above
    """A work handle whose wait returns at once."""

    def __init__(self, work: Any) -> None:
        super().__init__()
        self.work = work

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Returns without waiting for the inner handle."""
        return True


class ReducesTheFirst(AroundGloo):
    """A backend whose coalesced all-reduce leaves out all tensors but the first."""

    def allreduce_coalesced(self, tensors: list[torch.Tensor], options: Any) -> Any:
        """Reduces one tensor."""
        return self.gloo.allreduce_coalesced(tensors[:1], options)


class ScattersTheFirst(AroundGloo):
    """A backend that leaves out all tensors but the first, of calls of ``reduce_scatter_tensor`` made one."""

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, options: Any) -> Any:
        """Reduces and scatters one tensor."""
        return self.unseen("reduce_scatter_tensor_coalesced")(outputs[:1], inputs[:1], options)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced


class ReducesTheMemory(AroundGloo):
    """A backend whose ``reduce_scatter_tensor`` takes its input for as many elements that lie in a row."""

    def _reduce_scatter_base(self, output: torch.Tensor, given: torch.Tensor, options: Any) -> Any:
        """Reduces what lies in memory where the input begins."""
        beneath = given.as_strided((given.numel(),), (1,)).reshape(given.shape)
        return self.gloo._reduce_scatter_base(output, beneath, options)

    reduce_scatter_single = _reduce_scatter_base


class TiresOfGroups(AroundGloo):
    """A backend that reduces and sends zeros in groups that are made when the process has made others."""

    made = 0

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(store, rank, size, timeout)
        type(self).made += 1
        if type(self).made > 3:  # of three ranks each is in as many groups from the beginning
            self.allreduce, self.broadcast = self.of_zeros("allreduce"), self.of_zeros("broadcast")

    def of_zeros(self, name: str) -> Any:
        """A collective whose tensors are set to zero before."""
        return lambda tensors, options: getattr(self.gloo, name)([t.zero_() for t in tensors], options)


class Impatient(dist._Work):  # type: ignore[misc]  # as above
    """A work handle whose wait returns where its timeout passes, as if the call were over."""

    def __init__(self, work: Any) -> None:
        super().__init__()
        self.work = work

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Waits for the inner handle for so long."""
        try:
            self.work.wait(timeout)
        except RuntimeError:
            if not timeout:
                raise
        return True


class GivesUp(AroundGloo):
    """A backend whose all_reduce returns handles that do not tell that a timeout has passed."""

    def allreduce(self, tensors: list[torch.Tensor], options: Any) -> Any:
        """Starts an all_reduce."""
        return Impatient(self.gloo.allreduce(tensors, options))


class SkipsAWait(AroundGloo):
    """A backend whose broadcasts return handles that do not wait."""

    def broadcast(self, tensors: list[torch.Tensor], options: Any) -> Any:
        """Starts a broadcast and returns a handle that does not wait for it."""
        return Unwaited(self.gloo.broadcast(tensors, options))


class Hangs(AroundGloo):
    """A backend on which a reduce_scatter of lists never ends on the last rank."""

    def reduce_scatter(self, outputs: Any, inputs: Any, options: Any) -> Any:
        """Makes the last rank wait for a message that nobody sends, instead of taking part."""
        if self.rank() == self.size() - 1:
            return self.gloo.recv([torch.zeros(1)], 0, 12345)
        return self.gloo.reduce_scatter(outputs, inputs, options)


class Dies(AroundGloo):
    """A backend on which the sender of a message exits."""

    def send(self, tensors: Any, target: int, tag: int = 0) -> Any:
        """Ends the process without a report."""
        os._exit(3)
