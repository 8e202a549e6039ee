"""Draws FSDP1 programs: a function of a seed; every value is one that FSDP1 documents to support."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from harness.fuzzing.blocks import BLOCKS
from harness.fuzzing.fsdp.draw import MAX_BLOCKS, MAX_STEPS, PRECISIONS, block, restorable, step
from harness.fuzzing.fsdp.program import DOUBLE, OPTIMIZERS
from harness.fuzzing.fsdp1.program import HYBRIDS, PREFETCHES, STRATEGIES, Fsdp1Program

#: The meshes of ranks in all. A last dimension of 1 is in the book: gradients are not reduced at all.
MESHES = {size: ((size,), (size,), (1, size)) for size in (2, 3)} | {4: ((4,), (2, 2))}


def drawn(seed: int, world_size: int) -> Fsdp1Program:
    """The program of a seed for ``world_size`` ranks."""
    choice = random.Random(seed)
    mesh, options = choice.choice(MESHES[world_size]), dict[str, Any]()
    names = sorted(set(BLOCKS) - Fsdp1Program.refused)
    if choice.random() < 0.6:
        options["orig"] = True
    else:
        names.remove("frozen")
    low = choice.random() < 0.3
    if low:
        names = [name for name in names if name not in DOUBLE]
        options["dtype"], reduce = choice.choice(PRECISIONS)
        options.update({"reduce": reduce} if reduce else {})
    if len(mesh) == 2 or choice.random() < 0.5:
        options["strategy"] = choice.choice(STRATEGIES if len(mesh) == 1 else HYBRIDS)
    if choice.random() < 0.4:
        options["prefetch"] = choice.choice(PREFETCHES)
    options.update({name: True for name in ("forward_prefetch", "unlimited") if choice.random() < 0.2})
    ignores = not low and choice.random() < 0.2
    blocks = tuple(_block(choice, names, ignores) for _ in range(choice.randint(1, MAX_BLOCKS)))
    inner = choice.choice((None, choice.randint(0, len(blocks) - 1)))
    unit = inner is not None and choice.random() < 0.6
    optimizer = choice.choice(OPTIMIZERS[:2] if low else OPTIMIZERS)
    single = choice.random() < 0.3
    options.update({"single": True} if single else {})
    steps = tuple(step(choice, Fsdp1Program.known_restores[1:]) for _ in range(choice.randint(1, MAX_STEPS)))
    if not single or any(role == "ignored" for _, role in blocks):
        steps = tuple(replace(each, clips=False) for each in steps)
    steps = restorable(optimizer, steps)
    return Fsdp1Program(mesh, blocks, inner, unit, tuple(sorted(options.items())), steps, optimizer)


def _block(choice: random.Random, names: list[str], ignores: bool) -> tuple[str, str]:
    """A block with its role; a unit of frozen parameters and others dies in the book."""
    name, role = block(choice, names, ignores)
    return name, "" if name == "frozen" and role == "unit" else role
