"""Programs of collectives and messages, as values: what every rank does, in one order that all of them share.

A ``Program`` says what is communicated, never how to call it; ``schedule`` turns it into one rank's actions,
``reference`` into what every rank holds afterwards, ``execute`` into calls, ``source`` into a script.

Every rank's data is a function of the step, the rank and the part (``reference.fill``), except where a step
takes up what an earlier one gave. A call is synchronous (``delay`` None), or it returns a handle that is
waited for after ``delay`` further steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from harness.errors import UsageError

Delay = int | None

#: Collectives by what goes in and comes out of a rank of a group of n: see ``reference``.
IN_PLACE = ("all_reduce", "broadcast", "reduce")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
REDUCING = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor")
#: Those that cut or join along dimension 0.
BY_ROWS = ("all_gather_into_tensor", "all_to_all_single", "reduce_scatter_tensor")
#: The positional arguments of the function of torch.distributed that has the collective's name.
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "all_reduce": ("input", "op"),
    "broadcast": ("input", "root"),
    "reduce": ("input", "root", "op"),
    "all_gather": ("outputs", "input"),
    "all_gather_into_tensor": ("output", "input"),
    "gather": ("input", "outputs", "root"),
    "scatter": ("output", "inputs", "root"),
    "reduce_scatter": ("output", "inputs", "op"),
    "reduce_scatter_tensor": ("output", "input", "op"),
    "all_to_all": ("outputs", "inputs"),
    "all_to_all_single": ("output", "input", "rows_received", "rows_sent"),
    "barrier": (),
}
KINDS = tuple(ARGUMENTS)

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int32", "int64")
COMPLEX = ("complex64", "complex128")
DTYPES = (*FLOATS, *INTEGERS, "bool", *COMPLEX)
#: The dtypes that each operation is defined for.
OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "sum": DTYPES,
    "avg": (*FLOATS, *COMPLEX),
    "product": (*FLOATS, *INTEGERS, "bool"),
    "min": (*FLOATS, *INTEGERS, "bool"),
    "max": (*FLOATS, *INTEGERS, "bool"),
    "band": (*INTEGERS, "bool"),
    "bor": (*INTEGERS, "bool"),
    "bxor": (*INTEGERS, "bool"),
}


class _StepRepr:
    """A step as the code that makes it, without what is as by default."""

    __slots__ = ()

    def __repr__(self) -> str:
        each = fields(self)  # type: ignore[arg-type]  # every step is a dataclass
        known = {f.name: getattr(self, f.name) for f in each if f.default in (MISSING, None)}
        known |= {f.name: getattr(self, f.name) for f in each if getattr(self, f.name) != f.default}
        said = [f"{f.name}={known[f.name]!r}" for f in each if known.get(f.name) is not None]
        return f"{type(self).__name__}({', '.join(said)})"


@dataclass(frozen=True, slots=True, repr=False)
class CollectiveStep(_StepRepr):
    """One call of a collective by every rank of ``group`` (global ranks, ascending).

    ``shape`` is that of one part: of the tensor that a rank gives where it gives one, of each tensor in its
    list, of its rows where the collective cuts along dimension 0. ``root`` counts within the group.
    ``uneven``, for ``all_to_all_single``, lets other numbers of rows go between each two ranks. ``takes`` is
    an earlier step: where that gave this rank a tensor of the dtype and shape that this one needs, it is the
    input.
    """

    kind: str
    group: tuple[int, ...]
    dtype: str = "float32"
    shape: tuple[int, ...] = (2,)
    op: str = "sum"
    root: int = 0
    delay: Delay = None
    uneven: bool = False
    takes: int | None = None

    def __post_init__(self) -> None:
        """UsageError for what is no call."""
        _check(self.kind in KINDS, f"{self.kind!r} is no collective; there are {', '.join(KINDS)}")
        _check_tensor(self.dtype, self.shape)
        _check_group(self.group)
        _check(self.op in OPERATIONS, f"{self.op!r} is no operation; there are {', '.join(OPERATIONS)}")
        if self.kind in REDUCING:
            _check(self.dtype in OPERATIONS[self.op], f"{self.op} is not defined for {self.dtype}")
        _check(0 <= self.root < len(self.group), f"root {self.root} is not in a group of {len(self.group)}")
        _check(self.kind not in BY_ROWS or bool(self.shape), f"{self.kind} needs a dimension to cut along")
        _check_delay(self.delay)


@dataclass(frozen=True, slots=True, repr=False)
class Message(_StepRepr):
    """A tensor from one rank to another (global ranks), over ``group``, which both are in.

    ``send`` and ``receive`` are the delays of the two calls. With ``lag`` n > 0 the receiver's call comes n
    steps after the sender's, with n < 0 the sender's comes -n steps after the receiver's. The earlier one of
    two has to have a delay, and is waited for after the later one has been called, or it might block a rank
    that the other waits for. Messages that may be under way together need different tags, unless their lag is
    0.
    """

    source: int
    target: int
    group: tuple[int, ...]
    dtype: str = "float32"
    shape: tuple[int, ...] = (2,)
    tag: int = 0
    send: Delay = None
    receive: Delay = None
    lag: int = 0

    def __post_init__(self) -> None:
        """UsageError for what is no message, or one that could deadlock."""
        _check_tensor(self.dtype, self.shape)
        _check_group(self.group)
        ends = {self.source, self.target}
        _check(len(ends) == 2, f"rank {self.source} cannot send to itself")
        _check(ends <= set(self.group), f"ranks {sorted(ends)} are not both in group {self.group}")
        _check(self.tag >= 0, f"tag {self.tag} is negative")
        _check_delay(self.send)
        _check_delay(self.receive)
        early = self.send if self.lag > 0 else self.receive
        _check(not self.lag or early is not None, "the call that comes first must not block: give it a delay")


@dataclass(frozen=True, slots=True)
class Straggler:
    """Rank ``rank`` goes on only when every other rank has come to this step, so it is late for the next."""

    rank: int


Step = CollectiveStep | Message | Straggler
_STEPS: dict[str, type] = {each.__name__: each for each in (CollectiveStep, Message, Straggler)}


@dataclass(frozen=True, slots=True)
class Program:
    """What ``world_size`` ranks do, step after step."""

    world_size: int
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        """UsageError for a step that these ranks cannot do."""
        _check(self.world_size >= 1, f"a program for {self.world_size} ranks")
        untagged: dict[tuple[int, int, tuple[int, ...], int], list[Message]] = {}
        for number, step in enumerate(self.steps):
            ranks = (step.rank,) if isinstance(step, Straggler) else step.group
            outside = [rank for rank in ranks if not 0 <= rank < self.world_size]
            _check(not outside, f"step {number}: there is no rank {outside}; world size {self.world_size}")
            if isinstance(step, CollectiveStep) and step.takes is not None:
                _check(0 <= step.takes < number, f"step {number} takes {step.takes}, which is not before it")
            if isinstance(step, Message):
                untagged.setdefault((step.source, step.target, step.group, step.tag), []).append(step)
        for (source, target, _, tag), messages in untagged.items():
            alone = len(messages) == 1 or not any(message.lag for message in messages)
            _check(
                alone, f"messages from {source} to {target} by tag {tag} may overtake each other: their lag"
            )

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The groups that are communicated on, in order of first use."""
        return tuple(dict.fromkeys(step.group for step in self.steps if not isinstance(step, Straggler)))


def to_json(program: Program) -> dict[str, Any]:
    """A program as JSON-able values; lossless with ``from_json``."""
    steps = [{"step": type(step).__name__, **asdict(step)} for step in program.steps]
    return {"world_size": program.world_size, "steps": steps}


def from_json(value: Mapping[str, Any]) -> Program:
    """The program of JSON values; UsageError where they are none."""
    try:
        return Program(value["world_size"], tuple(_step(each) for each in value["steps"]))
    except (KeyError, TypeError) as error:
        raise UsageError(f"not a program: {error!r}") from error


def _step(value: Mapping[str, Any]) -> Step:
    fields = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items() if k != "step"}
    return _STEPS[value["step"]](**fields)  # type: ignore[no-any-return]  # _STEPS holds the steps' classes


def _check(good: bool, message: str) -> None:
    if not good:
        raise UsageError(message)


def _check_tensor(dtype: str, shape: Sequence[int]) -> None:
    _check(dtype in DTYPES, f"{dtype!r} is no dtype; there are {', '.join(DTYPES)}")
    _check(all(size >= 0 for size in shape), f"a shape of {tuple(shape)}")


def _check_group(group: Sequence[int]) -> None:
    _check(isinstance(group, tuple), f"group {group!r}: give a tuple of ranks")
    _check(bool(group), "a group of no ranks")
    _check(list(group) == sorted(set(group)), f"group {tuple(group)}: name each rank once, in order")


def _check_delay(delay: Delay) -> None:
    _check(delay is None or delay >= 0, f"a delay of {delay} steps")
