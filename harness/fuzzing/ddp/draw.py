"""Draws DDP programs: a function of a seed; every value is one that DDP documents to support."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from harness.fuzzing.blocks import BLOCKS
from harness.fuzzing.ddp.program import HOOKS, DdpProgram, Step

#: The most blocks of a module and steps of a program.
MAX_BLOCKS, MAX_STEPS = 5, 4
#: Bucket capacities in MiB: one parameter a bucket, a few parameters a bucket, all in one.
CAPACITIES = (1e-5, 2e-4, 25)
#: The options under which parameters may have no gradient.
FINDING = ("find_unused_parameters", "static_graph")
#: What a joined rank cannot shadow, or what one process does not compute in the same way.
NOT_JOINED = frozenset({"buffer", "norm", "sparse"})


def drawn(seed: int, world_size: int) -> DdpProgram:
    """The program of a seed for ``world_size`` ranks."""
    choice = random.Random(seed)
    blocks = tuple(choice.choice(sorted(BLOCKS)) for _ in range(choice.randint(1, MAX_BLOCKS)))
    options = _options(choice, blocks)
    joins = choice.random() < 0.2 and not NOT_JOINED & {*blocks} and not {*FINDING} & {*options}
    steps = tuple(_step(choice, joins) for _ in range(choice.randint(1, MAX_STEPS)))
    if options.get("static_graph"):
        # The first backward under no_sync() fails an internal assertion; where an output is not in the loss,
        # the second step is not reduced, and what comes after it fails (2.13).
        if any(BLOCKS[name].unused for name in blocks):
            steps = tuple(replace(each, batches=1, evaluates=False) for each in steps)
        steps = (replace(steps[0], batches=1), *steps[1:])
    hook = "" if joins else choice.choice(HOOKS)
    return DdpProgram(world_size, blocks, tuple(sorted(options.items())), steps, hook, joins)


def _step(choice: random.Random, joins: bool) -> Step:
    """A step; under ``join()`` a call without gradients ends the processes (2.13)."""
    return Step(choice.choice((1, 1, 2, 3)), choice.random() < 0.3, choice.random() < 0.2 and not joins)


def _options(choice: random.Random, blocks: tuple[str, ...]) -> dict[str, Any]:
    """The options of DDP that are not defaults."""
    own = [BLOCKS[name] for name in blocks]
    options: dict[str, Any] = {}
    if any(each.varies for each in own):
        options["find_unused_parameters"] = True
    elif any(each.unused for each in own):
        options[choice.choice(FINDING)] = True
    else:
        options.update(choice.choice(({}, {}, {"find_unused_parameters": True}, {"static_graph": True})))
    if choice.random() < 0.5:
        options["gradient_as_bucket_view"] = True
    if choice.random() < 0.3:
        options["broadcast_buffers"] = False
    if choice.random() < 0.7:
        options["bucket_cap_mb"] = choice.choice(CAPACITIES)
    return options
