"""The messages between controller, zygote and workers: a frozen dataclass each, sent as JSON frames.

    controller                    zygote                      worker
        |  Load(modules)  --------> |                            |
        | <--- Loading, Loaded ---- |  imports, lists            |
        |  Fork(name, items) + fds -> fork --------------------> |
        | <--- Forked(name, pid) -- |                            |
        | <------------------------------- Began, Ended, ... --- |   on the worker's own pipe
        | <--- Gone(name, code) --- | <--------- _exit --------- X

``harness.wire`` does the framing. A ``Fork`` is followed by file descriptors (``FORK_FDS``).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.errors import ProtocolError
from harness.field_checks import checked
from harness.runner.scheduling.plan import Attempt
from harness.runner.scheduling.unit import split_id
from harness.targets.device_set import DeviceSet

# Number of descriptors that follow a Fork: the worker's message socket, its output pipe, its stack-dump pipe,
# its claim pipe.
FORK_FDS = 4


@dataclass(frozen=True, slots=True)
class Load:
    """Controller to zygote: import modules, with ``path`` in front of ``sys.path``, and list their tests.

    ``environ`` are variables to set before, or with None to remove; ``first`` are modules of torch to import
    first, for workers that import their test's module themselves.
    """

    modules: list[str]
    path: list[str] = field(default_factory=list)
    environ: dict[str, str | None] = field(default_factory=dict)
    first: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Loading:
    """Zygote to controller: a module's import begins. If the zygote dies now, this module is the cause."""

    module: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """Zygote to controller: the result of importing a module.

    ``units`` are ``unit.to_json`` values; ``error`` is the traceback where the import failed, ``skipped`` the
    reason where the module raised ``SkipTest``, and ``refusal`` the reason where pytest would have to run it
    and cannot. ``dirty`` is set where the import left threads running, or
    process groups and the like: workers must not be forked from this process any more. ``import_s`` is the
    duration of the import, None where it imported torch too, whose time belongs to no single module.
    ``files`` are the sources that the list of tests depends on, and ``duplicates`` the ids that several
    different tests share. ``of_torch`` are, where it is dirty, the slow modules of torch that are imported.
    """

    module: str
    units: list[dict[str, Any]]
    error: str = ""
    skipped: str | None = None
    refusal: str = ""
    dirty: bool = False
    import_s: float | None = None
    files: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    of_torch: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Unusable:
    """Zygote to controller: nothing of the ``Load`` is imported, because the target cannot be tested.

    ``reason`` is one line for the user.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Ready:
    """Zygote to controller: there has been a ``Loaded`` for every module of the ``Load``.

    ``target`` is the name of the target that is tested, and ``known`` its known failures as JSON
    (``harness.targets.known``); "" and none where that is the default target. ``devices`` are
    its accelerators by the names that the variable ``visible`` takes (``harness.targets.device_set``); None
    where it has none but the CPU. ``shift_s`` is what to add to the monotonic clock of the zygote's host for
    the controller's.
    """

    target: str = ""
    known: list[dict[str, str]] = field(default_factory=list)
    devices: list[str] | None = None
    visible: str = ""
    shift_s: float = 0.0

    @property
    def device_set(self) -> DeviceSet | None:
        """The target's accelerators; None where it has none but the CPU."""
        return None if self.devices is None else DeviceSet(tuple(self.devices), self.visible)


@dataclass(frozen=True, slots=True)
class HostLost:
    """A relay to the controller: the host of the zygote is lost, and with it the zygote and its workers."""

    reason: str


@dataclass(frozen=True, slots=True)
class Item:
    """One attempt at a test that a worker runs, and the number ``seq`` under which the worker reports it.

    ``ranks`` is how many ranks the test starts, 1 for a test without ranks.
    """

    seq: int
    module: str
    attempt: Attempt
    ranks: int = 1

    @property
    def id(self) -> str:
        """The test's unittest id."""
        return self.attempt.id

    @property
    def class_key(self) -> str:
        """``module.case``, the key of the class's fixture in the timings."""
        return split_id(self.id)[0]


@dataclass(frozen=True, slots=True)
class Fork:
    """Controller to zygote: fork a worker that runs these items in this order, as long as it can claim one.

    The claim pipe has a byte for each item; whoever reads one has claimed an item, the worker the first one
    that is left, the controller the last one.

    With ``terminal`` the worker keeps the controller's terminal, session and process group (for a debugger);
    with ``stream`` it keeps the standard output. ``marker`` separates the tests' output on the output pipe.
    ``post_mortem`` opens a debugger on each failure; ``stop_at_failure`` ends the batch at the first failing
    test. ``keeps_calls`` leaves ranks' calls in records of tests that pass, too. ``threads`` is the number
    of intra-op threads, None for torch's default; ``environ`` are variables that the worker sets.
    """

    worker: str
    items: list[Item]
    marker: str
    stream: bool = False
    terminal: bool = False
    post_mortem: bool = False
    stop_at_failure: bool = False
    keeps_calls: bool = False
    threads: int | None = None
    environ: dict[str, str] = field(default_factory=dict)
    asks: bool = False


@dataclass(frozen=True, slots=True)
class Kill:
    """Controller to zygote: send a signal to a worker, or with ``group`` to its whole process group."""

    worker: str
    signum: int
    group: bool = False


@dataclass(frozen=True, slots=True)
class Forked:
    """Zygote to controller: the worker has been forked, with this process id."""

    worker: str
    pid: int


@dataclass(frozen=True, slots=True)
class Gone:
    """Zygote to controller: a worker has ended. ``code`` is as in ``subprocess``; memory is in bytes."""

    worker: str
    code: int
    peak_memory: int


@dataclass(frozen=True, slots=True)
class Began:
    """Worker to controller: a test, or the first of its fixtures, started at ``at_s`` (monotonic clock)."""

    seq: int
    at_s: float


@dataclass(frozen=True, slots=True)
class Ended:
    """Worker to controller: a test and its fixtures have ended; ``record`` is its ``TestRecord`` as JSON."""

    seq: int
    record: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Debugging:
    """Worker to controller: a debugger takes the terminal (``on``) or gives it back."""

    on: bool


@dataclass(frozen=True, slots=True)
class Done:
    """Worker to controller: the batch has ended, and the worker is about to exit."""


Message = (
    Load
    | Loading
    | Loaded
    | Unusable
    | Ready
    | HostLost
    | Fork
    | Kill
    | Forked
    | Gone
    | Began
    | Ended
    | Debugging
    | Done
)
_KINDS: dict[str, type] = {c.__name__: c for c in Message.__args__}
_NAMES = {kind: [f.name for f in dataclasses.fields(kind)] for kind in _KINDS.values()}


def encode(message: Message) -> bytes:
    """A message as bytes."""
    value = {name: getattr(message, name) for name in _NAMES[type(message)]}
    if isinstance(message, Fork):
        value["items"] = [_item_to_json(item) for item in message.items]
    return json.dumps({"kind": type(message).__name__, **value}, separators=(",", ":")).encode()


def _item_to_json(item: Item) -> list[int | str]:
    return [item.seq, item.module, item.ranks, item.id, item.attempt.repeat, item.attempt.attempt]


def _item(seq: int, module: str, ranks: int, test_id: str, repeat: int, attempt: int) -> Item:
    return Item(seq, module, Attempt(test_id, repeat, attempt), ranks)


def decode(frame: bytes) -> Message:
    """The message in a frame; ProtocolError where the frame is not a message."""
    try:
        value: Mapping[str, Any] = json.loads(frame)
        fields = dict(value)
        kind = _KINDS[fields.pop("kind")]
        if kind is Fork:
            fields["items"] = [_item(*values) for values in fields["items"]]
        return kind(**checked(kind, fields))  # type: ignore[no-any-return]  # message classes only
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ProtocolError(f"not a message: {frame[:80]!r} ({error!r})") from error
