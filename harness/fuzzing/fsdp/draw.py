"""Draws FSDP programs: a function of a seed; every value is one that FSDP documents to support."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from harness.fuzzing.blocks import BLOCKS
from harness.fuzzing.fsdp.program import (
    COMPILED,
    DOUBLE,
    OPTIMIZERS,
    REFUSED,
    RESTORES,
    SUBMODULES,
    WAYS,
    FsdpProgram,
    Step,
)

#: The most blocks of a module and steps of a program.
MAX_BLOCKS, MAX_STEPS = 5, 3
#: The meshes of ranks in all: the last dimension shards, one before it replicates.
MESHES = {size: ((size,), (size,), (1, size), (size, 1)) for size in (2, 3)} | {4: ((4,), (2, 2))}
#: What has no backward under FSDP2 (in the book of bugs), and would hide all else that its programs show.
NOT_REDUCED = frozenset({"empty"})
#: Blocks without a gradient. Compiled, theirs is zero, and checkpoints have nothing of an optimizer for them.
IDLE = frozenset(name for name, each in BLOCKS.items() if each.unused)
#: Precisions: of parameters and of the reduction; "" is that of the parameters.
PRECISIONS = (("float32", ""), ("float32", "float64"), ("bfloat16", "float32"))


def drawn(seed: int, world_size: int) -> FsdpProgram:
    """The program of a seed for ``world_size`` ranks."""
    choice = random.Random(seed)
    mesh, options = choice.choice(MESHES[world_size]), dict[str, Any]()
    names = sorted(set(BLOCKS) - REFUSED - NOT_REDUCED)
    low = choice.random() < 0.3
    if low:
        names = [name for name in names if name not in DOUBLE]
        options["dtype"], reduce = choice.choice(PRECISIONS)
        options.update({"reduce": reduce} if reduce else {})
    ignores = not low and choice.random() < 0.2
    blocks = tuple(block(choice, names, ignores) for _ in range(choice.randint(1, MAX_BLOCKS)))
    inner = choice.choice((None, choice.randint(0, len(blocks) - 1)))
    if choice.random() < 0.6:
        numbers = [each for each in range(2, mesh[-1]) if mesh[-1] % each == 0]
        options["reshard"] = choice.choice((True, False, *numbers))
    if choice.random() < 0.15:
        options["offload"] = True
    if choice.random() < 0.2 and world_size != 3:
        options["last_dim"] = True
    idle = bool({name for name, _ in blocks} & IDLE)
    if choice.random() < 0.1 and not idle:
        options["compile"] = choice.choice(COMPILED)
    optimizer = choice.choice(OPTIMIZERS[:2] if low else OPTIMIZERS)
    fixed = isinstance(options.get("reshard"), int) and not isinstance(options.get("reshard"), bool)
    one_mesh = fixed or idle or {name for name, _ in blocks} & DOUBLE
    restored = RESTORES[1:3] if one_mesh else RESTORES[1:]
    steps = tuple(step(choice, restored) for _ in range(choice.randint(1, MAX_STEPS)))
    if any(role == "ignored" for _, role in blocks):
        steps = tuple(replace(each, clips=False) for each in steps)
    steps = restorable(optimizer, steps, twice=any(name == "shared" for name, _ in blocks))
    unit = inner is not None and choice.random() < 0.6
    return FsdpProgram(mesh, blocks, inner, unit, tuple(sorted(options.items())), steps, optimizer)


def restorable(optimizer: str, steps: tuple[Step, ...], twice: bool = False) -> tuple[Step, ...]:
    """The steps without state dicts that torch does not carry over, with FSDP or without it.

    One that is taken before the first step counts as a step of Adam's, a full one of plain SGD is refused,
    and so is, under FSDP2, a full one of a module that is registered ``twice``: all are in the book of bugs.
    """
    full = optimizer != "sgd" and not twice
    kept = [replace(each, restores="") if each.restores == "full" and not full else each for each in steps]
    return (replace(kept[0], restores=""), *kept[1:])


def block(choice: random.Random, names: list[str], ignores: bool) -> tuple[str, str]:
    """A block of one of the names, with its role."""
    name = choice.choice(names)
    roles = ("", "unit", "unit", "ignored") if ignores else ("", "unit")
    return name, choice.choice(roles) if name in SUBMODULES else ""


def step(choice: random.Random, restored: tuple[str, ...]) -> Step:
    """A step of any kind; before it the states are restored in one of the ways of ``restored``, or not."""
    return Step(
        choice.choice((1, 1, 2, 3)),
        choice.choice(WAYS),
        choice.random() < 0.3,
        choice.random() < 0.2,
        choice.choice(("", "", "", *restored)),
        choice.random() < 0.3,
    )
