"""The messages between hosts: one frozen dataclass each, and their encoding. Nothing of them is a pickle.

On an agent's arrival:  agent -> controller ``Arrived``; controller -> agent ``Welcome`` or ``TurnedAway``,
and ``Goodbye`` when the run is over.
In a session (a process of tests and one host's agent):  relay -> agent ``Ping`` and ``Settled`` first; then
for each launch ``Begin``, ``ToSignal``, ``End``; agent -> relay ``Pong``; ``Began`` or ``NotBegun``,
``RankEnded``, ``HostSwept``. Both ways ``Data``, which is packed: most bytes travel in it. The rest is JSON
with the class's name.
In a session of the controller, which has whole tests run on that host: relay -> agent ``StartZygote``, then
``ForkWorker``, ``Claimed``, ``End`` for each worker; agent -> relay ``Claim``, ``ZygoteEnded``. ``Data`` has
the frames of the zygote's own protocol (``runner.messages``), and what its workers say.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from harness.errors import ProtocolError
from harness.field_checks import checked

# The number in ``Data`` of the zygote itself; its workers have the numbers after it.
ZYGOTE = 0


class Stream(enum.IntEnum):
    """What ``Data`` is a piece of. The first three end with an empty piece."""

    CHANNEL = 0
    OUTPUT = 1
    STACK = 2
    LOG = 3


@dataclass(frozen=True, slots=True)
class Arrived:
    """An agent is there: its host's name, the address on which it takes sessions, and that of its store.

    ``slots`` is how many ranks the host takes before a test spans another one; ``versions`` has to be equal
    on all hosts. ``own``: the controller has started the agent, which is on its host.
    """

    host: str
    address: str
    port: int
    store: int
    slots: int
    versions: Mapping[str, str]
    processors: int = 1
    memory_mb: int | None = None
    accelerators: int = 0
    own: bool = False


@dataclass(frozen=True, slots=True)
class Welcome:
    """The agent is a part of the run."""


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """The agent is none, and ends."""

    reason: str


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The run is over, and all went as it should."""


@dataclass(frozen=True, slots=True)
class Ping:
    """Asks for a ``Pong``, also to show that the peer is there. Seconds on the sender's monotonic clock."""

    sent_s: float


@dataclass(frozen=True, slots=True)
class Pong:
    """Answers a ``Ping`` with its time, and the time on the answerer's monotonic clock."""

    sent_s: float
    own_s: float


@dataclass(frozen=True, slots=True)
class Settled:
    """What a session reckons with: seconds to add to the agent's clock, seconds of silence that end it."""

    shift_s: float
    lost_after_s: float


@dataclass(frozen=True, slots=True)
class Begin:
    """Start those ranks of a launch that are on this host.

    ``request`` is a ``protocol.Launch`` as text. ``token`` is what the file of that name in the launch's
    scratch directory holds, by which the agent knows whether it sees the same directory. ``hosts`` are all
    that the launch is on, ``store`` is the address of the store at which their ranks meet, "" for one host.
    ``environ`` are variables that ranks of this host have otherwise than the request says.
    """

    launch: int
    request: str
    token: str
    hosts: list[str]
    store: str
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Began:
    """The ranks exist; their process ids in the order of the request's ranks."""

    launch: int
    pids: list[int]


@dataclass(frozen=True, slots=True)
class NotBegun:
    """The ranks could not be started on this host."""

    launch: int
    reason: str


@dataclass(frozen=True, slots=True)
class ToSignal:
    """Sends a signal to a rank, or with ``group`` to its process group."""

    launch: int
    rank: int
    signum: int
    group: bool


@dataclass(frozen=True, slots=True)
class End:
    """The parent has let go of the launch: what still runs of it is killed."""

    launch: int


@dataclass(frozen=True, slots=True)
class RankEnded:
    """A rank has ended, as in ``protocol.Exited``; all that it sent has come before."""

    launch: int
    rank: int
    code: int
    peak_memory: int


@dataclass(frozen=True, slots=True)
class HostSwept:
    """Nothing of a launch is left on this host; ``leaked`` as in ``protocol.Swept``."""

    launch: int
    leaked: list[str]


@dataclass(frozen=True, slots=True)
class StartZygote:
    """Start the process that imports test modules and forks workers on this host.

    ``environ`` are the controller's variables, ``guarded`` those of them that limit libraries to one thread,
    as workers get them.
    """

    environ: Mapping[str, str]
    guarded: Mapping[str, str | None]
    sys_path: list[str]


@dataclass(frozen=True, slots=True)
class ForkWorker:
    """Have the zygote fork a worker, whose bytes have this number in ``Data``; ``order`` is a ``Fork``."""

    launch: int
    order: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker asks for its next test."""

    launch: int


@dataclass(frozen=True, slots=True)
class Claimed:
    """The answer: ``granted`` where it may run the test, else its batch is over."""

    launch: int
    granted: bool


@dataclass(frozen=True, slots=True)
class ZygoteEnded:
    """The zygote of this host has died, and its workers with it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of one rank's or worker's stream. In a piece of the log they begin at ``offset``."""

    launch: int
    rank: int
    stream: Stream
    payload: bytes
    offset: int = 0


Message = (
    Arrived
    | Welcome
    | TurnedAway
    | Goodbye
    | Ping
    | Pong
    | Settled
    | Begin
    | Began
    | NotBegun
    | ToSignal
    | End
    | RankEnded
    | HostSwept
    | StartZygote
    | ForkWorker
    | Claim
    | Claimed
    | ZygoteEnded
    | Data
)
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Message) if kind is not Data}
# The mark, which no JSON begins with; launch, rank, stream, offset; the payload follows.
_DATA = struct.Struct(">cIIBI")
_MARK = b"D"


def encode(message: Message) -> bytes:
    """A message as bytes."""
    if isinstance(message, Data):
        head = _DATA.pack(_MARK, message.launch, message.rank, message.stream, message.offset)
        return head + message.payload
    return json.dumps({"kind": type(message).__name__, **dataclasses.asdict(message)}).encode()


def decode(frame: bytes) -> Message:
    """The message of a frame; ProtocolError for anything else."""
    try:
        if frame[:1] == _MARK:
            _, launch, rank, stream, offset = _DATA.unpack_from(frame)
            return Data(launch, rank, Stream(stream), frame[_DATA.size :], offset)
        value = json.loads(str(frame, "utf-8"))
        kind = _KINDS[value.pop("kind")]
        return kind(**checked(kind, value))  # type: ignore[no-any-return]  # _KINDS holds message classes only
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
        raise ProtocolError(f"not a message of a host: {frame[:80]!r} ({error!r})") from error
