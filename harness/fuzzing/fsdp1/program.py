"""``Fsdp1Program``: an FSDP program whose options are those of FSDP1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from harness.errors import UsageError
from harness.fuzzing.blocks import BLOCKS
from harness.fuzzing.fsdp.program import REFUSED, RESTORES, FsdpProgram

STRATEGIES = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD")
#: For a mesh of two dimensions.
HYBRIDS = ("HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")
#: When the next unit is gathered in a backward; "" is never.
PREFETCHES = ("BACKWARD_PRE", "BACKWARD_POST", "")


@dataclass(frozen=True, slots=True)
class Fsdp1Program(FsdpProgram):
    """A program for FSDP1, whose units keep one parameter each, made of all that they have.

    The options are ``orig`` (``use_orig_params``), ``strategy``, ``dtype`` and ``reduce`` (of the mixed
    precision), ``prefetch`` (in backward), ``forward_prefetch``, ``unlimited`` all-gathers, and ``single``: a
    module of float32, because gradients of float64 cannot be clipped (in the book of bugs). A parameter
    without a gradient takes part in the optimizer's steps as one whose gradient is zero, so that there are
    no unused ones.
    """

    known_options: ClassVar[frozenset[str]] = frozenset(
        {"orig", "strategy", "dtype", "reduce", "prefetch", "forward_prefetch", "unlimited", "single"}
    )
    known_restores: ClassVar[tuple[str, ...]] = RESTORES[:3]
    refused: ClassVar[frozenset[str]] = REFUSED | {name for name, each in BLOCKS.items() if each.unused}

    def check_sharding(self, options: dict[str, Any]) -> None:
        """Raises UsageError for options that do not fit the mesh or the blocks."""
        strategies = STRATEGIES if len(self.mesh) == 1 else HYBRIDS
        if options.get("strategy", "FULL_SHARD") not in strategies:
            raise UsageError("a hybrid strategy is for a mesh of two dimensions")
        if options.get("prefetch", "") not in PREFETCHES:
            raise UsageError(f"prefetch is one of {', '.join(map(repr, PREFETCHES))}")
        if any(each.clips for each in self.steps) and not options.get("single"):
            raise UsageError("gradients of float64 are not clipped")
        frozen = any(name == "frozen" and role != "ignored" for name, role in self.blocks)
        if frozen and not options.get("orig"):
            raise UsageError("without use_orig_params all parameters of a unit are trained")
