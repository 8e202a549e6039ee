"""``StepProgram``: a module of blocks, an optimizer, the tracer's options and calls, as a value."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from harness.errors import UsageError
from harness.fuzzing.blocks import BLOCKS, model_source

#: The most blocks of a module and calls of a step.
MAX_BLOCKS, MAX_CALLS = 5, 5
#: What the tracer refuses: a decision that data takes, a sparse gradient, a hook.
REFUSED = frozenset({"sparse", "hooked", *(name for name, block in BLOCKS.items() if block.varies)})
#: Options of each optimizer that are not defaults, some of which a program has.
OPTIMIZERS: Mapping[str, Mapping[str, Any]] = {
    "SGD": {"momentum": 0.9, "weight_decay": 0.1, "maximize": True},
    "Adam": {"amsgrad": True, "weight_decay": 0.1, "maximize": True},
    "AdamW": {"amsgrad": True, "weight_decay": 0.2, "betas": (0.5, 0.9)},
    "Adagrad": {"lr_decay": 0.5, "weight_decay": 0.1, "initial_accumulator_value": 0.5},
    "Adadelta": {"rho": 0.5, "weight_decay": 0.1, "maximize": True},
    "Adamax": {"weight_decay": 0.1, "betas": (0.5, 0.9), "maximize": True},
    "NAdam": {"weight_decay": 0.1, "decoupled_weight_decay": True, "momentum_decay": 0.1},
    "RAdam": {"weight_decay": 0.1, "decoupled_weight_decay": True, "betas": (0.5, 0.7)},
    "RMSprop": {"centered": True, "momentum": 0.5, "weight_decay": 0.1},
    "ASGD": {"weight_decay": 0.1, "lambd": 0.1, "t0": 1.0},
}
FUSED = ("SGD", "Adam", "AdamW", "Adagrad")
RATES = (0.5, 0.125, 0.01)
#: Sizes of buckets in MiB: one gradient each, some, all.
BUCKETS = (1e-5, 2e-4, 25)

Options = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the step: how many batches of how many rows, the learning rate, and the module's mode."""

    batches: int = 1
    rows: int = 3
    rate: float = 0.5
    trains: bool = True


@dataclass(frozen=True, slots=True)
class StepProgram:
    """The blocks by name, the optimizer with its options, the options of ``compile``, and the calls."""

    world_size: int
    blocks: tuple[str, ...]
    optimizer: str
    options: Options
    compiled: Options
    calls: tuple[Call, ...]

    def __post_init__(self) -> None:
        """Raises UsageError for names that are not there."""
        if self.optimizer not in OPTIMIZERS or not {*self.blocks} <= {*BLOCKS}:
            raise UsageError(f"no such block or optimizer: {self.blocks}, {self.optimizer}")

    @property
    def source(self) -> str:
        """The class ``Model``."""
        return model_source(self.blocks)


def drawn(choice: random.Random, world_size: int) -> StepProgram:
    """A program that the tracer has to take."""
    names = sorted({*BLOCKS} - REFUSED)
    optimizer = choice.choice(sorted(OPTIMIZERS))
    some = choice.sample(sorted(OPTIMIZERS[optimizer].items()), choice.choice((0, 0, 1, 2)))
    kinds = ["", "foreach", "loop", *(["fused"] if optimizer in FUSED else [])]
    kind = choice.choice(kinds)
    if kind:
        some.append(("fused", True) if kind == "fused" else ("foreach", kind == "foreach"))
    compiled: dict[str, Any] = {"warm_up": True}
    if choice.random() < 0.5:
        compiled["bucket_mb"] = choice.choice(BUCKETS)
    return StepProgram(
        world_size,
        tuple(choice.choice(names) for _ in range(choice.randint(0, MAX_BLOCKS))),
        optimizer,
        tuple(sorted(some)),
        tuple(sorted(compiled.items())),
        tuple(_call(choice) for _ in range(choice.randint(2, MAX_CALLS))),
    )


def _call(choice: random.Random) -> Call:
    return Call(
        choice.choice((1, 1, 1, 2)),
        choice.choice((3, 3, 3, 2)),
        choice.choice(RATES),
        choice.random() > 0.1,
    )


def simpler(program: StepProgram) -> Iterator[StepProgram]:
    """Programs simpler by one change: fewer calls, blocks and options first, then plainer ones."""
    for name in ("calls", "blocks", "options"):
        items = getattr(program, name)
        for number in reversed(range(len(items))):
            if name != "calls" or len(items) > 1:
                fewer: dict[str, Any] = {name: (*items[:number], *items[number + 1 :])}
                yield replace(program, **fewer)
    plain = (("warm_up", True),)
    if program.compiled != plain:
        yield replace(program, compiled=plain)
    if program.world_size > 1:
        yield replace(program, world_size=1)
    if program.optimizer != "SGD":
        yield replace(program, optimizer="SGD", options=())
    for number, block in enumerate(program.blocks):
        if block != "linear":
            yield replace(program, blocks=(*program.blocks[:number], "linear", *program.blocks[number + 1 :]))
    for number, call in enumerate(program.calls):
        for field, value in asdict(Call()).items():
            if getattr(call, field) != value:
                plainer = replace(call, **{field: value})
                yield replace(program, calls=(*program.calls[:number], plainer, *program.calls[number + 1 :]))


def to_json(program: StepProgram) -> dict[str, Any]:
    """A program as values of JSON."""
    return asdict(program)


def from_json(value: Mapping[str, Any]) -> StepProgram:
    """The program that ``to_json`` wrote."""
    return StepProgram(
        value["world_size"],
        tuple(value["blocks"]),
        value["optimizer"],
        _options(value["options"]),
        _options(value["compiled"]),
        tuple(Call(**each) for each in value["calls"]),
    )


def _options(value: Any) -> Options:
    return tuple((name, tuple(each) if isinstance(each, list) else each) for name, each in value)
