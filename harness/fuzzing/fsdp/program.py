"""``FsdpProgram``: a module of blocks, which of them are units of FSDP, its options and steps, as a value."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, TypeVar

from harness.errors import UsageError
from harness.fuzzing.blocks import BLOCKS, model_source

#: Blocks that FSDP documents not to support, or whose unused parameters differ by rank.
REFUSED = frozenset({"scalar", "transposed", "complex", "sparse", "branch", "sometimes", "hooked", "float32"})
#: Blocks that have a submodule of their own, which can be a unit or be ignored.
SUBMODULES = frozenset(
    {"linear", "shared", "twice", "odd", "frozen", "embedding", "norm", "checkpoint"}
    | {"detached", "output"}
)  # fmt: skip
#: Blocks with buffers, or values of float64 in ``forward``, for which a lower precision is no option.
DOUBLE = frozenset({"buffer", "norm"})
#: What a block is to FSDP: a part of the module around it, a unit of its own, or ignored.
ROLES = ("", "unit", "ignored")
#: How gradients are accumulated: reduced in the last backward, resharded there only, too, or in each.
WAYS = ("once", "kept", "each")
OPTIMIZERS = ("sgd", "momentum", "adam")
OPTIONS = frozenset({"reshard", "dtype", "reduce", "offload", "last_dim", "compile"})
#: How state dicts go to a new model and optimizer; resized ones go to another mesh, through a checkpoint.
RESTORES = ("", "full", "sharded", "resized")
#: What is compiled: each unit, before it is sharded (torch's own modules run in eager then), or the whole
#: module, which is.
COMPILED = ("units", "whole")
P = TypeVar("P", bound="FsdpProgram")


@dataclass(frozen=True, slots=True)
class Step:
    """One optimizer step of ``batches`` backwards, which accumulate in one of ``WAYS``.

    ``keeps``: gradients are set to zero before it, not to None. ``evaluates``: the module is called without
    gradients before it. ``restores``: before it, state dicts go to a new model and optimizer, in one of
    ``RESTORES``. ``clips``: the norm of the gradients is limited.
    """

    batches: int = 1
    way: str = "once"
    keeps: bool = False
    evaluates: bool = False
    restores: str = ""
    clips: bool = False


@dataclass(frozen=True, slots=True)
class FsdpProgram:
    """Blocks, each with its role, the mesh, options that are not defaults, and the steps.

    Blocks from number ``inner`` on are in a module within, which is a unit if ``unit``. The options are
    ``reshard`` (after forward), ``dtype`` and ``reduce`` (of the mixed precision), ``offload``, ``last_dim``,
    and ``compile``, one of ``COMPILED``.
    """

    #: The options that there are, how states are restored, and the blocks that are not supported.
    known_options: ClassVar[frozenset[str]] = OPTIONS
    known_restores: ClassVar[tuple[str, ...]] = RESTORES
    refused: ClassVar[frozenset[str]] = REFUSED

    mesh: tuple[int, ...]
    blocks: tuple[tuple[str, str], ...]
    inner: int | None
    unit: bool
    options: tuple[tuple[str, Any], ...]
    steps: tuple[Step, ...]
    optimizer: str = "sgd"

    def __post_init__(self) -> None:
        """Raises UsageError for what is not there and for what FSDP documents not to do."""
        options, names = dict(self.options), {name for name, _ in self.blocks}
        roles = {role for _, role in self.blocks}
        if (
            names - {*BLOCKS}
            or roles - {*ROLES}
            or {*options} - self.known_options
            or self.optimizer not in OPTIMIZERS
        ):
            raise UsageError("no such block, role, option or optimizer")
        if names & self.refused or any(role and name not in SUBMODULES for name, role in self.blocks):
            raise UsageError("a block that FSDP does not support, or without a module of its own")
        if "dtype" in options and (names & DOUBLE or "ignored" in roles):
            raise UsageError("a lower precision excludes buffers of float64 and ignored parameters")
        if "ignored" in roles and any(each.clips for each in self.steps):
            raise UsageError("norms of DTensors and ignored tensors are not taken together")
        if self.inner is not None and not 0 <= self.inner <= len(self.blocks):
            raise UsageError("the module within begins at one of the blocks")
        restores = {each.restores for each in self.steps}
        if restores - {*self.known_restores}:
            raise UsageError(f"restores is one of {', '.join(map(repr, self.known_restores))}")
        if "resized" in restores and names & DOUBLE:
            raise UsageError("a checkpoint has the buffers of one rank")
        self.check_sharding(options)

    def check_sharding(self, options: dict[str, Any]) -> None:
        """Raises UsageError for options that do not fit the mesh."""
        reshard = options.get("reshard")
        if not isinstance(reshard, bool | None) and (
            self.mesh[-1] % reshard or not 1 < reshard < self.mesh[-1]
        ):
            raise UsageError("a number for reshard_after_forward divides the ranks")
        resized = any(each.restores == "resized" for each in self.steps)
        if resized and not isinstance(reshard, bool | None):
            raise UsageError("a number for reshard_after_forward fits one mesh")
        if options.get("compile", COMPILED[0]) not in COMPILED:
            raise UsageError(f"compile is one of {', '.join(COMPILED)}")

    @property
    def world_size(self) -> int:
        """The ranks of the mesh."""
        return math.prod(self.mesh)

    @property
    def source(self) -> str:
        """The class ``Model``."""
        return model_source([name for name, _ in self.blocks], self.inner)

    def modules(self, wanted: str) -> list[str]:
        """The names of the modules of a role, those within before those around.

        An ignored one that is shared has the name by which its parameters are known: that of its first block.
        """
        found = []
        first: dict[bool, int] = {}
        for number, (name, role) in enumerate(self.blocks):
            within = self.inner is not None and number >= self.inner
            known = first.setdefault(within, number) if name == "shared" else number
            if role == wanted:
                found.append(f"{'inner.' * within}{name}{known if wanted == 'ignored' else number}")
        found = list(dict.fromkeys(found))
        return [*found, "inner"] if wanted == "unit" and self.inner is not None and self.unit else found


def to_json(program: FsdpProgram) -> dict[str, Any]:
    """A program as values of JSON."""
    return asdict(program)


def from_json(data: dict[str, Any], kind: type[P]) -> P:
    """The program of a kind that ``to_json`` wrote."""
    return kind(
        tuple(data["mesh"]),
        tuple((name, role) for name, role in data["blocks"]),
        data["inner"],
        data["unit"],
        tuple((name, value) for name, value in data["options"]),
        tuple(Step(**each) for each in data["steps"]),
        data["optimizer"],
    )
