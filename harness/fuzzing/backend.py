"""``Backend``: what a backend supports of what programs do, and what a target declares of that.

Pure. ``GLOO`` is what gloo supports in the running release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.errors import UsageError
from harness.fuzzing.program import (
    COALESCED,
    DTYPES,
    GAPPED,
    KINDS,
    MANAGED,
    OBJECTS,
    OPERATIONS,
    REDUCING,
    TIMED,
)
from harness.targets import Capability, Target
from harness.targets.builtin import gloo


@dataclass(frozen=True, slots=True)
class Backend:
    """What a backend supports.

    ``dtypes`` are those that it can move, ``kinds`` the collectives that it has, ``refuses`` the dtypes that
    a collective does not support although others do, ``messages`` says whether it has send and receive,
    ``ops`` are the reductions that all its reducing collectives have, ``regroups`` says whether a program
    may make groups and destroy them, ``gapped`` are the collectives that take views with gaps as they look
    (managed ones are taken to do so where any does), ``managed`` those that may be managed,
    and ``timed`` those whose calls go on where a wait for them times out.
    """

    dtypes: tuple[str, ...] = DTYPES
    kinds: tuple[str, ...] = KINDS
    refuses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    messages: bool = True
    ops: tuple[str, ...] = tuple(OPERATIONS)
    regroups: bool = True
    gapped: tuple[str, ...] = ()
    managed: tuple[str, ...] = ()
    timed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises UsageError for an unknown dtype or collective, for no collectives, and for a collective
        that is left without a dtype."""
        refused = [dtype for dtypes in self.refuses.values() for dtype in dtypes]
        for what, named, known in (
            ("dtypes", self.dtypes, DTYPES),
            ("kinds", self.kinds, KINDS),
            ("refuses", self.refuses, KINDS),
            ("gapped", self.gapped, GAPPED),
            ("managed", self.managed, MANAGED),
            ("timed", self.timed, TIMED),
            ("refuses", refused, DTYPES),
            ("ops", self.ops, tuple(OPERATIONS)),
        ):
            unknown = [each for each in named if each not in known]
            if unknown:
                raise UsageError(
                    f"{what} of a backend: there is no {unknown[0]!r}; there are {', '.join(known)}"
                )
        empty = [kind for kind in self.kinds if kind != "barrier" and not self.takes(kind)]
        if empty or not self.kinds:
            raise UsageError(
                f"a backend that has no dtype for {empty[0]}" if empty else "a backend without kinds"
            )

    def takes(self, kind: str) -> tuple[str, ...]:
        """The dtypes that a collective supports on this backend."""
        return tuple(each for each in self.dtypes if each not in self.refuses.get(kind, ()))


def backend_of(target: Target) -> Backend:
    """What a target declares of what programs do; UsageError where no collective is left."""
    needs = {Capability.COALESCED_TENSORS: COALESCED, Capability.OBJECTS: OBJECTS}
    without = {kind for need, kinds in needs.items() if need not in target.capabilities for kind in kinds}
    free = {*OBJECTS, "barrier"}
    kinds = tuple(kind for kind in KINDS if kind not in without and (kind in free or target.dtypes(kind)))
    reducing = [kind for kind in kinds if kind in REDUCING]
    ops = tuple(op for op in OPERATIONS if all(target.dtypes(kind, op) for kind in reducing))
    taken = {kind: _taken(target, kind, ops) for kind in kinds if kind not in free}
    dtypes = tuple(dtype for dtype in DTYPES if any(dtype in each for each in taken.values()))
    refuses = {kind: tuple(dtype for dtype in dtypes if dtype not in taken[kind]) for kind in taken}
    coalesced = taken.get("all_reduce_coalesced", frozenset())
    managed = {
        "all_reduce": coalesced >= taken.get("all_reduce", frozenset()),
        **dict.fromkeys(MANAGED[1:], Capability.COALESCED_TENSORS in target.capabilities),
    }
    return Backend(
        dtypes=dtypes,
        kinds=tuple(
            kind
            for kind in kinds
            if taken.get(kind)
            or (kind == "barrier" and Capability.BARRIER in target.capabilities)
            or (kind in OBJECTS and dtypes)
        ),
        refuses={kind: refused for kind, refused in refuses.items() if refused},
        messages=Capability.POINT_TO_POINT in target.capabilities,
        ops=ops,
        regroups=Capability.SUB_GROUPS in target.capabilities,
        gapped=GAPPED if target.backend == gloo().backend else (),
        timed=tuple(kind for kind in TIMED if kind in kinds) if target.backend == gloo().backend else (),
        managed=tuple(kind for kind in MANAGED if managed[kind] and taken.get(kind)),
    )


def _taken(target: Target, kind: str, ops: Sequence[str]) -> frozenset[str]:
    """The dtypes that a collective takes, with each reduction that is defined for them where it reduces."""
    declared = target.dtypes(kind)
    if kind not in REDUCING:
        return declared
    lacking = {d for op in ops for d in OPERATIONS[op] if d not in target.dtypes(kind, op)}
    return declared - lacking


#: What gloo supports in the running torch release (2.11 to 2.13); all_to_all of lists: pytorch/pytorch#88245.
GLOO = backend_of(gloo())
