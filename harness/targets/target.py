"""``Target``: a backend and a device, and what they declare: operations, dtypes, reductions, capabilities.

Dtypes and reductions are names, as torch has them without its module and in lower case: ``"float32"``,
``"premul_sum"``. So a target can be read where torch is not imported.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.targets import device

if TYPE_CHECKING:
    import torch

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
INTEGERS = frozenset({"uint8", "int8", "int32", "int64"})
COMPLEX = frozenset({"complex64", "complex128"})
BOOL = frozenset({"bool"})

# Integers that many backends lack, gloo too.
RARE_INTEGERS = frozenset({"int16", "uint16", "uint32", "uint64"})

_WHOLE = INTEGERS | RARE_INTEGERS | BOOL

# What each reduction is defined for, by the definition of its arithmetic. A target may say otherwise.
DEFINED_FOR: Mapping[str, frozenset[str]] = {
    "sum": FLOATS | _WHOLE | COMPLEX,
    "avg": FLOATS | COMPLEX,
    "product": FLOATS | _WHOLE,
    "min": FLOATS | _WHOLE,
    "max": FLOATS | _WHOLE,
    "band": _WHOLE,
    "bor": _WHOLE,
    "bxor": _WHOLE,
    "premul_sum": FLOATS,
}
# The reductions that nearly every backend has.
ARITHMETIC = ("sum", "product", "min", "max")

# The collectives of torch.distributed that move tensors, those that reduce them, and messages.
MOVING = (
    *("broadcast", "scatter", "gather", "all_gather", "all_gather_into_tensor", "all_gather_coalesced"),
    *("all_to_all", "all_to_all_single"),
)
REDUCING = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor", "all_reduce_coalesced")
MESSAGES = ("send", "recv")


class Capability(enum.Enum):
    """What a backend can do beyond operations on the default group; the value is what skips say."""

    SUB_GROUPS = "groups of some of the ranks"
    SPLIT_GROUP = "split_group"
    ASYNCHRONOUS = "calls with async_op=True"
    FUTURES = "futures of work handles"
    POINT_TO_POINT = "messages between two ranks"
    TAGS = "messages told apart by tags"
    ANY_SOURCE = "recv from any source"
    BATCHES = "batch_isend_irecv"
    COALESCING = "several calls coalesced into one by startCoalescing"
    COALESCED_TENSORS = "coalesced calls on several tensors"
    UNEVEN_SPLITS = "all_to_all_single with parts of different sizes"
    UNEVEN_LISTS = "lists whose tensors differ in size between ranks"
    STACKED_OUTPUTS = "all_gather_into_tensor into a stack"
    OBJECTS = "object collectives"
    SPARSE = "all_reduce of sparse tensors"
    BARRIER = "barrier"
    MONITORED_BARRIER = "monitored_barrier"
    TIMEOUTS = "timeouts that end a call"
    SEQUENCE_NUMBERS = "sequence numbers of collectives"
    PROFILING = "collectives in the profiler's events"
    FUNCTIONAL = "functional collectives, of which DTensor is made"
    DDP = "DistributedDataParallel"
    BUILTIN_COMM_HOOKS = "DDP's communication hooks of C++"
    COMPILED_DDP = "DistributedDataParallel under torch.compile"
    FSDP1 = "FullyShardedDataParallel"
    INDUCTOR = "inductor's code for the device"


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation that a target declares: the dtypes it takes and, by reduction, those it reduces."""

    dtypes: frozenset[str]
    reductions: Mapping[str, frozenset[str]] = field(default_factory=dict)


def operations(
    names: Iterable[str], dtypes: Iterable[str], reductions: Iterable[str] = ARITHMETIC
) -> dict[str, Operation]:
    """Operations that all take these dtypes.

    Those that reduce have each of ``reductions`` for those of the dtypes that it is defined for
    (``DEFINED_FOR``); a mapping says for which. UsageError for an unknown reduction.
    """
    taken = frozenset(dtypes)
    said = reductions if isinstance(reductions, Mapping) else {}
    reduced = {name: taken & said.get(name, _known(name)) for name in reductions}
    return {name: Operation(taken, reduced if name in REDUCING else {}) for name in names}


def collectives(dtypes: Iterable[str], reductions: Iterable[str] = ARITHMETIC) -> dict[str, Operation]:
    """All operations of ``torch.distributed`` on tensors, messages too, as ``operations`` makes them."""
    return operations((*MOVING, *REDUCING, *MESSAGES), dtypes, reductions)


def _known(reduction: str) -> frozenset[str]:
    if reduction not in DEFINED_FOR:
        raise UsageError(f"there is no reduction {reduction!r}: write one of {', '.join(DEFINED_FOR)}")
    return DEFINED_FOR[reduction]


@dataclass(frozen=True, slots=True)
class Target:
    """What is tested: a backend on a device type, and what they declare.

    ``backend`` is the name that ``init_process_group`` takes, ``device_type`` that of ``torch.device``.
    ``operations`` are by their names in ``torch.distributed``. ``tolerances`` are pairs (relative, absolute)
    by dtype, where results are further off than ``harness.tolerances`` and the suites allow.

    The functions for the device are those of torch's module for it unless given: ``set_device(index)``,
    ``synchronize()``, which raises what has failed on the device, and ``device_count()``. ``visible_devices``
    is the environment variable that says which devices a process sees, as a list of names with commas: by it
    tests that run at once get devices of their own. Where there is none, they run one after the other.
    ``ranks_per_device`` is how many ranks may share a device: NCCL refuses more than one, and gloo takes as
    many as there is memory for. ``UsageError`` for a target that cannot be.
    """

    backend: str
    device_type: str
    operations: Mapping[str, Operation]
    capabilities: frozenset[Capability] = frozenset()
    tolerances: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    set_device: Callable[[int], None] = device.unset
    synchronize: Callable[[], None] = device.unset
    device_count: Callable[[], int] = device.unset
    visible_devices: str = ""
    ranks_per_device: int = 1

    def __post_init__(self) -> None:
        if not self.backend or not self.device_type or self.backend != self.backend.lower():
            raise UsageError(
                f"a target has a backend in lower case and a device type, not {self.backend!r} "
                f"and {self.device_type!r}"
            )
        wrong = [each for each in self.capabilities if not isinstance(each, Capability)]
        if wrong:
            raise UsageError(f"target {self}: {wrong[0]!r} is no Capability")
        if self.ranks_per_device < 1:
            raise UsageError(f"target {self}: ranks_per_device is {self.ranks_per_device}; it is at least 1")
        for name, usual in device.FUNCTIONS.items():
            given = getattr(self, name)
            # dataclasses.replace passes what was filled in here, for the device type that was.
            if given is device.unset or (isinstance(given, partial) and given.func is usual):
                object.__setattr__(self, name, partial(usual, self.device_type))

    @property
    def visible_variable(self) -> str:
        """``visible_devices``, or the usual one of the device type; "" for none."""
        return self.visible_devices or device.VISIBLE.get(self.device_type, "")

    def most_ranks(self) -> int:
        """How many ranks there is room for on the devices of this process."""
        return self.device_count() * self.ranks_per_device

    def __str__(self) -> str:
        """The name in messages: ``gloo``, or ``nccl on cuda``."""
        return self.backend if self.device_type == "cpu" else f"{self.backend} on {self.device_type}"

    def device(self, rank: int) -> torch.device:
        """Where the tensors of a rank live: an accelerator, those of its host in turn, or the CPU."""
        import torch

        if self.device_type == "cpu":
            return torch.device("cpu")
        count = self.device_count()
        return torch.device(self.device_type, rank % count if count else rank)

    def dtypes(self, operation: str, reduction: str | None = None) -> frozenset[str]:
        """The dtypes that are declared for an operation, or for one of its reductions; none: undeclared."""
        declared = self.operations.get(operation)
        if declared is None:
            return frozenset()
        return declared.dtypes if reduction is None else declared.reductions.get(reduction, frozenset())

    def undeclared(
        self,
        *capabilities: Capability,
        operation: str | None = None,
        reduction: str | None = None,
        dtype: str | None = None,
        backend: str | None = None,
        device_type: str | None = None,
    ) -> str:
        """The first of these that the target does not declare, in words; "" where it declares all.

        ``reduction`` and ``dtype`` are of ``operation``. ``backend`` and ``device_type`` are for what only
        that backend or device does.
        """
        if backend is not None and backend != self.backend:
            return f"what only the backend {backend} does"
        if device_type is not None and device_type != self.device_type:
            return f"what is done on {device_type} only"
        for each in capabilities:
            if each not in self.capabilities:
                return each.value
        return "" if operation is None else self._undeclared_operation(operation, reduction, dtype)

    def _undeclared_operation(self, operation: str, reduction: str | None, dtype: str | None) -> str:
        if not self.dtypes(operation):
            return operation
        found = self.dtypes(operation, reduction)
        of = operation if reduction is None else f"reduction {reduction.upper()} of {operation}"
        if not found:
            return of
        return f"{of} of {dtype}" if dtype is not None and dtype not in found else ""
