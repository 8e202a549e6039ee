"""``Try`` and ``Finding``: a thing to try on two ranks, and what came of it; all that is tried. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from harness.targets.target import (
    BOOL,
    COMPLEX,
    DEFINED_FOR,
    FLOATS,
    INTEGERS,
    MESSAGES,
    MOVING,
    RARE_INTEGERS,
    REDUCING,
    Capability,
)

RIGHT = "right"
_FLOAT8 = frozenset({"float8_e4m3fn", "float8_e5m2"})
_NUMBERS = FLOATS | INTEGERS | RARE_INTEGERS | BOOL | COMPLEX
DTYPES = _NUMBERS | _FLOAT8
# The dtype in which each operation is tried first; one that fails then is not tried with others.
USUAL = "float32"
# Of each reduction all dtypes for which it could be said what is right: more than ``DEFINED_FOR``, because
# some backends average whole numbers, which loses their fraction, and multiply complex ones.
REDUCIBLE: Mapping[str, frozenset[str]] = {
    **DEFINED_FOR,
    "avg": _NUMBERS - BOOL,
    "product": _NUMBERS,
}


@dataclass(frozen=True, slots=True)
class Try:
    """An operation of a dtype, with a reduction where it reduces, or the name of a ``Capability``."""

    operation: str = ""
    dtype: str = ""
    reduction: str = ""
    capability: str = ""

    def __str__(self) -> str:
        """What is tried, in words."""
        words = (self.capability, self.operation, self.reduction.upper(), self.dtype)
        return " ".join(word for word in words if word)

    def to_json(self) -> dict[str, str]:
        """The fields, for another process."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of a try: ``RIGHT``, "wrong", "refused", "crashed" or "hung", and what was said of it."""

    end: str
    said: str = ""

    @property
    def right(self) -> bool:
        """Whether it works."""
        return self.end == RIGHT


def operations() -> list[Try]:
    """Each operation once."""
    return [
        *(Try(name, USUAL, "sum" if name in REDUCING else "") for name in (*MOVING, *REDUCING)),
        *(Try(name, USUAL) for name in MESSAGES[:1]),  # nothing can be sent that nobody receives
    ]


# What is no matter of the backend alone, and takes long: the target's author says so.
NOT_TRIED = frozenset({Capability.COMPILED_DDP, Capability.FSDP1, Capability.INDUCTOR})


def further(working: Iterable[Try]) -> list[Try]:
    """Each capability, and all other dtypes and reductions of the operations of tries that work."""
    done = list(working)
    found = [Try(capability=each.name) for each in Capability if each not in NOT_TRIED]
    for each in done:
        found += _reducing(each.operation) if each.reduction else _moving(each.operation)
    return [each for each in found if each not in done]


def _moving(name: str) -> Iterable[Try]:
    return (Try(name, dtype) for dtype in sorted(DTYPES))


def _reducing(name: str) -> Iterable[Try]:
    return (
        Try(name, dtype, reduction) for reduction, dtypes in REDUCIBLE.items() for dtype in sorted(dtypes)
    )
