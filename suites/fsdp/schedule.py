"""What FSDP asks of the streams of a device, and in which order: a device on the CPU that writes it down.

``torch.cpu`` has streams and events that do nothing. Those put in their place here note who waits for what,
which collectives are started in which stream, and the regions that FSDP names for a profile in between.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch.autograd.profiler import record_function
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MAIN = "main"
#: How the regions that FSDP names begin.
PREFIXES = ("FSDP::", "FullyShardedDataParallel.")
#: Operators that are noted, by what they are called in a schedule; collectives are, too.
COPIES = {"all_gather_copy_in": "copy_in", "chunk_cat": "cat", "split_with_sizes_copy": "split"}


class Schedule:
    """The lines written down so far, and the device that writes them."""

    def __init__(self) -> None:
        self._lines: list[tuple[bool, tuple[Any, ...]]] = []
        self.main = Stream(self)
        self.current = self.main

    def note(self, *parts: Any, region: bool = False) -> None:
        """Write down words and streams, which get their names when they are read."""
        self._lines.append((region, parts))

    def grew(self, size: int) -> None:
        """Write down that so many bytes of memory were taken, or given back; together what is at once."""
        key = "take" if size > 0 else "give back"
        if self._lines and self._lines[-1][1][0] == key:
            size += (1 if size > 0 else -1) * self._lines.pop()[1][2]
        self.note(key, " ", abs(size))

    def work(self, name: str, extent: str) -> None:
        """Write down work in the current stream."""
        self.current.last = name
        self.note(f"{name} {extent}@", self.current)

    def taken(self, *owners: Any) -> list[str]:
        """What was written since the last time: a line for each region, or for each part of one.

        Fields of ``owners`` give names to the streams.
        """
        names: dict[Any, str] = {self.main: MAIN}
        for owner in owners:
            for name, value in vars(owner).items():
                if isinstance(value, Stream):
                    name = name.strip("_").removesuffix("_stream").removeprefix("all_gather_")
                    names.setdefault(value, name)
        lines = [""]
        for region, parts in self._lines:
            text = "".join(
                names.get(part, "another") if isinstance(part, Stream) else str(part) for part in parts
            )
            if region:
                lines.append(f"[{text}]")
            else:
                lines[-1] = f"{lines[-1]} {text};"
        self._lines.clear()
        return [line.strip() for line in lines if line]


def changes(usual: Sequence[str], found: Sequence[str]) -> list[str]:
    """What is not as usual: the lines that are not there, and those that are in their place."""
    compared = difflib.unified_diff(usual, found, lineterm="", n=0)
    return [line for line in list(compared)[2:] if not line.startswith("@@")]


def _extent(args: Any) -> str:
    """The size of the largest tensor among an operator's arguments, and its type if it is unusual."""
    tensors = [each for each in tree_leaves(args) if isinstance(each, torch.Tensor)]
    largest = max(tensors, key=torch.Tensor.numel)
    kind = "" if largest.dtype is torch.float32 else f" {largest.dtype}".replace("torch.", "")
    return f"{largest.numel()}{kind}"


class Stream:
    """A stream that writes down what waits for it and what it waits for."""

    def __init__(self, schedule: Schedule, priority: int = 0) -> None:
        self.schedule, self.priority, self.last = schedule, priority, "start"

    def wait_stream(self, stream: Stream) -> None:
        self.schedule.note(self, " < ", stream)

    def record_event(self, event: Event | None = None) -> Event:
        return (event or Event(self.schedule)).recorded(self)

    def wait_event(self, event: Event) -> None:
        event.wait(self)

    def synchronize(self) -> None:
        self.schedule.note("host < ", self)


class Event:
    """An event: what a stream has done by then."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.stream, self.last = schedule, schedule.main, "nothing"

    def recorded(self, stream: Stream | None) -> Event:
        self.stream = stream or self.schedule.current
        self.last = self.stream.last
        return self

    def record(self, stream: Stream | None = None) -> None:
        self.recorded(stream)

    def wait(self, stream: Stream | None = None) -> None:
        self.schedule.note(stream or self.schedule.current, " < ", self.last, "@", self.stream)

    def synchronize(self) -> None:
        self.schedule.note("host < ", self.last, "@", self.stream)

    def query(self) -> bool:
        return True


class _Operators(TorchDispatchMode):
    """Writes down collectives and copies with the stream that is current."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self._schedule = schedule

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.partition("::")[2].strip("_")
        if func.namespace == "c10d" or name in COPIES:
            self._schedule.work(COPIES.get(name, name), _extent(args))
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def scheduled() -> Iterator[Schedule]:
    """A region in which FSDP's device writes down what it is asked for."""
    schedule = Schedule()
    enter = record_function.__enter__

    def named(region: record_function) -> Any:
        for prefix in PREFIXES:
            if region.name.startswith(prefix):
                schedule.note(region.name.removeprefix(prefix).strip("_"), region=True)
        return enter(region)

    @contextlib.contextmanager
    def in_stream(stream: Stream | None) -> Iterator[None]:
        before, schedule.current = schedule.current, stream or schedule.current
        try:
            yield
        finally:
            schedule.current = before

    resize = torch.UntypedStorage.resize_

    def resized(storage: torch.UntypedStorage, size: int) -> Any:
        schedule.grew(size - storage.size())
        return resize(storage, size)

    device = {
        "Stream": lambda priority=0: Stream(schedule, priority),
        "Event": lambda *_, **__: Event(schedule),
        "current_stream": lambda device=None: schedule.current,
        "stream": in_stream,
    }
    with (
        mock.patch.multiple(torch.cpu, **device),
        # FSDP2 asks it where a gather is left over, on the CPU as well; a CUDA build would look for a GPU.
        mock.patch.object(torch.accelerator, "current_stream", device["current_stream"]),
        mock.patch.object(record_function, "__enter__", named),
        mock.patch.object(torch.UntypedStorage, "resize_", resized),
        _Operators(schedule),
    ):
        yield schedule
