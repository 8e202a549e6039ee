"""Defines ``Program``: a sequence of collectives and messages, in one order for all ranks, as plain values.

A ``Program`` says what is communicated, not how to call it. ``schedule`` turns it into one rank's actions,
``reference`` into the expected tensors of every rank, ``execute`` into calls, ``source`` into a script.

Each rank's input is a function of the step, the rank and the part (``reference.fill``), except where a step
takes the output of an earlier step. A call is synchronous (``delay`` is None), or it returns a handle that is
waited for after ``delay`` further steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from harness.errors import UsageError

Delay = int | None

#: Collectives that write their result into their input.
IN_PLACE = ("all_reduce", "all_reduce_coalesced", "broadcast", "reduce", "broadcast_object_list")
ROOTED = (
    *("broadcast", "reduce", "gather", "scatter"),
    *("broadcast_object_list", "gather_object", "scatter_object_list"),
)
#: Collectives of objects, which here are lists of numbers: they are synchronous, and know no devices.
OBJECTS = ("all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list")
REDUCING = ("all_reduce", "all_reduce_coalesced", "reduce", "reduce_scatter", "reduce_scatter_tensor")
#: Collectives of several tensors at a time: here of two.
COALESCED = ("all_reduce_coalesced", "all_gather_coalesced")
#: Collectives of which torch makes one call of several, with one tensor each, under ``_coalescing_manager``.
MANAGED = ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor")
#: Collectives in which each member waits for all others, and whose handles may be waited for with a timeout.
TIMED = ("all_reduce", "all_gather", "all_gather_into_tensor", "all_to_all", "all_to_all_single", "barrier")
#: Collectives that take views with gaps as they look, as managed ones do; to others gloo gives the memory
#: that lies beneath.
GAPPED = (
    *("all_reduce_coalesced", "all_gather", "all_gather_into_tensor", "all_gather_coalesced"),
    *("gather", "reduce_scatter_tensor", "all_to_all"),
)
#: Collectives that split or concatenate along dimension 0.
BY_ROWS = ("all_gather_into_tensor", "all_to_all_single", "reduce_scatter_tensor")
#: The positional arguments of the function in torch.distributed that has the collective's name.
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "all_reduce": ("input", "op"),
    "all_reduce_coalesced": ("inputs", "op"),
    "broadcast": ("input", "root"),
    "reduce": ("input", "root", "op"),
    "all_gather": ("outputs", "input"),
    "all_gather_into_tensor": ("output", "input"),
    "all_gather_coalesced": ("output_lists", "inputs"),
    "gather": ("input", "outputs", "root"),
    "scatter": ("output", "inputs", "root"),
    "reduce_scatter": ("output", "inputs", "op"),
    "reduce_scatter_tensor": ("output", "input", "op"),
    "all_to_all": ("outputs", "inputs"),
    "all_to_all_single": ("output", "input", "rows_received", "rows_sent"),
    "barrier": (),
    "all_gather_object": ("outputs", "input"),
    "broadcast_object_list": ("inputs", "root"),
    "gather_object": ("input", "outputs", "root"),
    "scatter_object_list": ("outputs", "inputs", "root"),
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
    """Gives a step a ``repr`` that is the code which makes it, without arguments that have their default."""

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

    ``shape`` is the shape of one part: of the rank's one input tensor, of each tensor in its list, or of the
    rows for one rank where the collective splits along dimension 0. Of two tensors that are coalesced it is
    the first's; the second has twice as many elements. Of objects it is that of each entry of the list, which
    is longer on each rank and part than on the one before. ``root`` counts within the group.
    ``uneven``, for ``all_to_all_single``, makes the number of rows differ between pairs of ranks. ``takes``
    is the number of an earlier step, whose output is this step's input if its dtype and shape fit. With
    ``views`` a rank's inputs are cut from one buffer, one behind the other, and so are its outputs; what
    stands before and behind them there must stay. With ``gaps`` that buffer is every second element of a
    larger one, and what stands between must stay, too. With ``managed`` it is two calls under torch's
    ``_coalescing_manager``, on two tensors as coalesced ones are, which reach the backend as one. With
    ``missing``, a global rank, the other members first wait with a timeout, which has to pass, and only then
    that member makes its call.
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
    views: bool = False
    gaps: bool = False
    managed: bool = False
    missing: int | None = None

    def __post_init__(self) -> None:
        """Raises UsageError for values that make no valid call."""
        _check(self.kind in KINDS, f"{self.kind!r} is no collective; there are {', '.join(KINDS)}")
        _check_tensor(self.dtype, self.shape)
        _check_group(self.group)
        _check(self.op in OPERATIONS, f"{self.op!r} is no operation; there are {', '.join(OPERATIONS)}")
        if self.kind in REDUCING:
            _check(self.dtype in OPERATIONS[self.op], f"{self.op} is not defined for {self.dtype}")
        _check(0 <= self.root < len(self.group), f"root {self.root} is not in a group of {len(self.group)}")
        _check(self.kind not in BY_ROWS or bool(self.shape), f"{self.kind} needs a dimension to cut along")
        _check_delay(self.delay)
        plain = self.delay is None and not self.views
        _check(self.kind not in OBJECTS or plain, f"{self.kind} is synchronous and has no tensors")
        _check(not self.managed or self.kind in MANAGED, f"managed calls are {', '.join(MANAGED)}")
        if self.missing is not None:
            _check(
                self.missing in self.group and len(self.group) > 1, f"rank {self.missing} is no other member"
            )
            timed = self.kind in TIMED and self.delay is not None and not self.managed
            _check(timed, f"timeouts are for handles of {', '.join(TIMED)}")
            _check(0 not in self.shape and not self.uneven, "nobody is waited for where nothing is sent")
        gapped = self.views and (self.managed or self.kind in GAPPED)
        _check(gapped or not self.gaps, f"gaps are for views, managed calls and {', '.join(GAPPED)}")

    @property
    def operation(self) -> str:
        """What the backend is asked for."""
        return f"{self.kind}_coalesced" if self.managed else self.kind


@dataclass(frozen=True, slots=True, repr=False)
class Message(_StepRepr):
    """A point-to-point message from rank ``source`` to ``target`` (global ranks), both members of ``group``.

    ``send`` and ``receive`` are the delays of the two calls. With a ``lag`` of n > 0 the receiver's call
    comes n steps after the sender's; with n < 0 the sender's comes -n steps after the receiver's. The earlier
    call must have a delay, and is waited for after the later call, because it might otherwise block a rank
    for which the other one waits. Messages that may be in flight together need different tags, unless their
    lag is 0. ``views``: both tensors are cut from larger buffers. ``objects``: it is a list of two objects,
    as collectives exchange them, by ``send_object_list``: both calls are synchronous and have no tag.
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
    views: bool = False
    objects: bool = False

    def __post_init__(self) -> None:
        """Raises UsageError for values that make no valid message, or one that could deadlock."""
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
        plain = self.send is None and self.receive is None and not self.tag and not self.views
        _check(plain or not self.objects, "a message of objects is synchronous and has no tag and no tensors")


@dataclass(frozen=True, slots=True)
class Straggler:
    """A step at which rank ``rank`` waits for every other rank to arrive, so that it is late for the next."""

    rank: int


@dataclass(frozen=True, slots=True)
class Regroup:
    """All ranks make a new process group of the ranks of ``group``, on which later steps communicate.

    Its members then meet, and destroy the one before, if an earlier ``Regroup`` made that. What is under way
    on it is waited for first.
    """

    group: tuple[int, ...]

    def __post_init__(self) -> None:
        """Raises UsageError for ranks that are no group."""
        _check_group(self.group)


#: A step that is a call of some ranks, and one at which ranks meet by a store.
Call = CollectiveStep | Message
Meeting = Straggler | Regroup
Step = Call | Meeting
_STEPS: dict[str, type] = {each.__name__: each for each in (CollectiveStep, Message, Straggler, Regroup)}


@dataclass(frozen=True, slots=True)
class Program:
    """A sequence of steps for ``world_size`` ranks."""

    world_size: int
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        """Raises UsageError for a step that these ranks cannot do, and for messages that may be confused."""
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
        """The groups that the steps communicate on, in order of first use."""
        return tuple(dict.fromkeys(step.group for step in self.steps if not isinstance(step, Straggler)))


def to_json(program: Program) -> dict[str, Any]:
    """Encodes a program as JSON-able values, from which ``from_json`` restores it."""
    return {"world_size": program.world_size, "steps": [*map(step_to_json, program.steps)]}


def step_to_json(step: Step) -> dict[str, Any]:
    """Encodes a step as JSON-able values, from which ``step_from_json`` restores it."""
    return {"step": type(step).__name__, **asdict(step)}


def from_json(value: Mapping[str, Any]) -> Program:
    """Restores a program from the values of ``to_json``; raises UsageError for any other values."""
    try:
        return Program(value["world_size"], tuple(map(step_from_json, value["steps"])))
    except (KeyError, TypeError) as error:
        raise UsageError(f"not a program: {error!r}") from error


def step_from_json(value: Mapping[str, Any]) -> Step:
    """Restores a step from the values of ``step_to_json``; KeyError, TypeError or UsageError for others."""
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
