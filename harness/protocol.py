"""The messages between parent, server and ranks: one frozen dataclass each, and their encoding.

Parent -> server: ``Launch`` (with descriptors), ``Release`` at the end; ``Signal`` on a launch's own socket.
Server -> parent, on the launch's socket: ``Launched`` or ``Refused``, ``Exited`` for each rank, ``Swept``;
where ranks are on other hosts, ``HostLost`` for those of a host that is gone.
Rank -> parent, on the rank's channel: ``SubtestFailed`` as that happens, ``Report`` or ``Passed`` at the end.
Parent -> rank: ``Release``; for each test of a pooled rank ``Launch`` or ``RepeatLaunch``.
Between ranks that an external launcher started, through a store: ``Report`` and ``Lost``.

They are encoded as JSON with the class's name, so that a journal or a person can read them. ``RepeatLaunch``
and ``Passed`` are packed binary, because the cost of a test on pooled ranks depends on them.
"""

from __future__ import annotations

import dataclasses
import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from json import dumps, loads  # by name: a test may have json's replaced while others report
from typing import Any, TypeVar

from harness.errors import ProtocolError
from harness.field_checks import LARGEST_S
from harness.outcome_json import (
    outcome_from_json,
    outcome_to_json,
    plain_fields,
    subtest_from_json,
    subtest_to_json,
)
from harness.outcomes import RankOutcome, Status, SubtestOutcome


@dataclass(frozen=True, slots=True)
class ModuleRef:
    """The module of a test class, with what another process needs to import it.

    ``name`` as in ``sys.modules``; ``file`` its source where it has one; ``run_as`` the importable name of a
    ``__main__`` that was started with ``-m``; ``first`` are modules to be imported before it.
    """

    name: str
    file: str | None = None
    run_as: str | None = None
    first: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """A request to start the ranks of one test; the descriptors for the launch and its ranks follow it.

    Environment, working directory and path are the parent's at this moment, not those of the server's start.
    ``threads`` is the number of intra-op threads for each rank, None to leave it as it is. ``scratch`` is the
    parent's directory of temporary files, which the server removes if the parent dies before it can.
    ``values`` is the directory for the values of the ranks' calls where they are checked, ``cells`` the one
    for the cells that they try where these are recorded. With
    ``pooled`` the ranks run no test at once: they get each test as another Launch on their channels, until a
    Release. ``keeps_group`` says that the test uses the process group which earlier tests made;
    ``same_surroundings`` that environment, directory, path and arguments are those of the previous Launch,
    and left out. ``imports`` are modules that the harness itself uses in these ranks, to be imported before
    the test begins; without ``preload``, where each rank imports the test's module, also what that imports.
    ``ranks`` are those that this server starts, where others are started on other hosts; [] means all. They
    are on at least ``least_hosts`` hosts. ``warning_filters`` hold while the test runs
    (``ranks.warning_filters``).
    """

    module: ModuleRef
    qualname: str
    method: str
    world_size: int
    file_name: str
    environ: dict[str, str]
    cwd: str
    sys_path: list[str]
    argv: list[str]
    threads: int | None = None
    start_timeout_s: float | None = None
    scratch: str | None = None
    values: str = ""
    cells: str = ""
    preload: bool = True
    pooled: bool = False
    keeps_group: bool = False
    same_surroundings: bool = False
    imports: list[str] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    ranks: list[int] = field(default_factory=list)
    least_hosts: int = 1
    warning_filters: list[str] = field(default_factory=list)

    @property
    def started_here(self) -> Sequence[int]:
        """The ranks that the server which gets this request starts."""
        return self.ranks or range(self.world_size)


@dataclass(frozen=True, slots=True)
class RepeatLaunch:
    """To a pooled rank: repeats the previous Launch with another method and rendezvous file.

    ``current_test`` is the new value of pytest's variable for the test that runs; "" where it is as before.
    """

    method: str
    file_name: str
    current_test: str = ""


@dataclass(frozen=True, slots=True)
class Launched:
    """All ranks exist; ``pids`` are their process ids by rank.

    Where they are on other hosts, ``hosts`` names each rank's, and ``clock_offsets`` are the seconds to add
    to that host's monotonic clock for this one's; else both are [].
    """

    pids: list[int]
    hosts: list[str] = field(default_factory=list)
    clock_offsets: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Refused:
    """The server could not start ranks.

    ``dirty`` says that importing the module left threads in the server, which therefore ends itself.
    """

    reason: str
    dirty: bool = False


@dataclass(frozen=True, slots=True)
class Exited:
    """A rank has ended. ``code`` as in ``subprocess``: negative for a signal. Peak memory in bytes."""

    rank: int
    code: int
    peak_memory: int


@dataclass(frozen=True, slots=True)
class HostLost:
    """The host of these ranks is gone, or cannot be reached any more; ``why`` is a line that names it."""

    ranks: list[int]
    why: str


@dataclass(frozen=True, slots=True)
class Swept:
    """Every rank has ended, and so have these processes that they left behind (one line each)."""

    leaked: list[str]


@dataclass(frozen=True, slots=True)
class Signal:
    """Makes the server send a signal to one rank, or with ``group`` to its whole process group."""

    rank: int
    signum: int
    group: bool = False


@dataclass(frozen=True, slots=True)
class SubtestFailed:
    """A sub-test of this rank failed, and its test continues; the rank's Report will repeat it.

    ``turn`` is as in ``Report``.
    """

    rank: int
    subtest: SubtestOutcome
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """A rank's outcome, sent when its test and cleanups are over.

    ``turn`` tells which of a pooled rank's tests that is, from 1; 0 of a rank that runs one test.
    """

    outcome: RankOutcome
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Passed:
    """A short form of a Report without further content; ``decode`` makes the Report of it."""

    rank: int
    duration_s: float
    started_s: float
    pid: int
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Lost:
    """The outcome of an external rank whose process has ended or is about to, in place of a Report."""

    outcome: RankOutcome


@dataclass(frozen=True, slots=True)
class Release:
    """To a rank: every rank has reported, so it may exit. To a server: it is no longer needed."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a rank's process is given at its start: its rank, the launch that it belongs to, its descriptors.

    A server passes it to each process that it starts: by value to a fork, on standard input to a new
    interpreter. ``channel`` carries the rank's messages, ``output`` what it prints, ``stack`` its stack
    dumps, and ``log`` is the memory file of its collectives. ``server_pid`` is the process that started it.
    """

    rank: int
    launch: Launch
    channel: int
    output: int
    stack: int
    log: int
    server_pid: int


Message = (
    Launch
    | RepeatLaunch
    | Launched
    | Refused
    | Exited
    | HostLost
    | Swept
    | Signal
    | SubtestFailed
    | Report
    | Passed
    | Lost
    | Release
    | Assignment
)
_KINDS: dict[str, type] = {c.__name__: c for c in Message.__args__}

M = TypeVar("M")

# The two most frequent messages are packed: a mark that no JSON begins with, then the fields.
_PASSED_MARK = b"P"
_PASSED = struct.Struct("<cIddII")
_AGAIN_MARK = b"A"
_TEXT = ("utf-8", "surrogatepass")  # a path may hold bytes that are not valid UTF-8
_AGAIN = struct.Struct("<cII")  # the mark and the lengths of method and file; they and the rest follow


def encode(message: Message, **changes: Any) -> bytes:
    """A message as bytes, with ``changes`` to its plain fields; TypeError for a value without JSON form."""
    kind = message.__class__
    if isinstance(message, Passed):
        assert not changes, changes
        m = message
        return _PASSED.pack(_PASSED_MARK, m.rank, m.duration_s, m.started_s, m.pid, m.turn)
    if isinstance(message, RepeatLaunch):
        assert not changes, changes
        method, file = message.method.encode(*_TEXT), message.file_name.encode(*_TEXT)
        sizes = _AGAIN.pack(_AGAIN_MARK, len(method), len(file))
        return sizes + method + file + message.current_test.encode(*_TEXT)
    value = _to_json(message) if kind in _RICH else plain_fields(message)
    return dumps({"kind": kind.__name__, **value, **changes}).encode()


def decode(frame: bytes, **known: Any) -> Message:
    """The message of a frame; ProtocolError for anything else.

    ``known`` are fields of a report's outcome that the receiver knows itself.
    """
    try:
        if frame[:1] == _PASSED_MARK:
            _, rank, duration, started, pid, turn = _PASSED.unpack(frame)
            if not (abs(duration) <= LARGEST_S and abs(started) <= LARGEST_S):
                raise ValueError("no times that a rank has")
            said = {"duration_s": duration, "started_s": started, "pid": pid, **known}
            return Report(RankOutcome(rank, Status.PASSED, **said), turn)
        if frame[:1] == _AGAIN_MARK:
            return _again(frame)
        value = loads(str(frame, "utf-8"))  # json detects the encoding of bytes, which takes time
        kind = _KINDS[value.pop("kind")]
        if kind is Report:
            return Report(outcome_from_json(value["outcome"], **known), value.get("turn", 0))
        return _from_json(kind, value)  # type: ignore[no-any-return]  # _KINDS holds message classes only
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
        raise ProtocolError(f"not a message: {frame[:80]!r} ({error!r})") from error


def _again(frame: bytes) -> RepeatLaunch:
    _, method, file = _AGAIN.unpack_from(frame)
    ends = (_AGAIN.size, _AGAIN.size + method, _AGAIN.size + method + file, len(frame))
    if ends[2] > ends[3]:
        raise ValueError("cut off")
    return RepeatLaunch(*(frame[a:b].decode(*_TEXT) for a, b in itertools.pairwise(ends)))


def expect(frame: bytes | None, kind: type[M]) -> M:
    """The message of a frame of one kind; ProtocolError for another kind or the stream's end (None)."""
    message = decode(frame) if frame is not None else None
    if not isinstance(message, kind):
        raise ProtocolError(f"expected {kind.__name__}, got {message!r}")
    return message


_LAUNCH_DEFAULTS = {f.name: f.default for f in dataclasses.fields(Launch)}

# The messages with a field that is not a JSON value, or that is left out at its default.
_RICH = frozenset({Launch, SubtestFailed, Report, Lost, Assignment})


def _to_json(message: Any) -> dict[str, Any]:
    if isinstance(message, Lost):
        return {"outcome": outcome_to_json(message.outcome)}
    if isinstance(message, Report):
        return {"outcome": outcome_to_json(message.outcome), "turn": message.turn}
    if isinstance(message, SubtestFailed):
        return {"rank": message.rank, "subtest": subtest_to_json(message.subtest), "turn": message.turn}
    if isinstance(message, Assignment):
        return {**plain_fields(message), "launch": _to_json(message.launch)}
    if isinstance(message, Launch):
        told = {n: v for n, v in plain_fields(message).items() if v != _LAUNCH_DEFAULTS[n]}
        return {**told, "module": plain_fields(message.module)}
    return plain_fields(message)


def _from_json(kind: type, value: dict[str, Any]) -> Any:
    if kind is Lost:
        return Lost(outcome_from_json(value["outcome"]))
    if kind is SubtestFailed:
        value["subtest"] = subtest_from_json(value["subtest"])
    if kind is Assignment:
        value["launch"] = _from_json(Launch, value["launch"])
    if kind is Launch:
        module = value["module"]
        value["module"] = ModuleRef(**{**module, "first": tuple(module["first"])})
    return kind(**value)
