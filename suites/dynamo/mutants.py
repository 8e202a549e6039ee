"""The faults that this suite is to notice, and the tests that may pass all the same.

    python tools/mutants.py dynamo

BERT's tests have faults of their own, with those of FSDP.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from unittest import mock

import torch
import torch._dynamo

from suites import kernels
from suites.c10d.faults.ddp import DDP_FAULTS
from suites.c10d.faults.moves import MOVES
from suites.c10d.faults.reductions import REDUCTIONS
from suites.compiler_faults import CHECKPOINTS, COMPILERS
from suites.dynamo.split_faults import PIECES, SPLITS
from suites.dynamo.survivors import SURVIVORS
from suites.fsdp.mutants import COMPILED
from suites.planting import Mutant, replacing

TESTS = tuple(
    f"dynamo.test_{name}"
    for name in (
        "asymmetric",
        "bucketing",
        "compiled_collectives",
        "compiler_collectives",
        "ddp_modes",
        "fake_ddp",
        "multi_proc",
        "nn_functional",
        "single_proc",
        "split_features",
        "split_layouts",
    )
)

# -- what ranks tell each other


def _hook_for_nobody(original, self):
    return None


RANKS = (
    replacing(
        "compilers_do_not_talk",
        "each rank compiles by itself",
        "torch._dynamo.convert_frame:get_compile_pg",
        lambda original: None,
        lambda: torch._dynamo.config.enable_compiler_collectives,
    ),
    replacing(
        "guards_do_not_talk",
        "each rank goes by its own guards",
        "torch.compiler:set_enable_guard_collectives",
        lambda original, enabled: False,
        lambda enabled: enabled,
    ),
    replacing(
        "python_reducer_does_not_reduce",
        "gradients stay the rank's own",
        "torch.nn.parallel.distributed:DistributedDataParallel._register_accum_grad_hook",
        _hook_for_nobody,
    ),
    replacing(
        "functional_is_not_refused",
        "the differentiable collectives are traced",
        "torch.distributed.nn.functional:_not_supported_under_compile",
        lambda original, name, *, suggestion=None: None,
        refuses=True,
    ),
)


def _without(option):
    """The fault of a DDP that does not know one of its options."""

    def faulty(original, self, *args, **options):
        options.pop(option, None)
        return original(self, *args, **options)

    return faulty


DDP = "torch.nn.parallel.distributed:DistributedDataParallel.__init__"
OPTIONS = (
    replacing(
        "static_graph_is_ignored",
        "DDP takes the graph for one that may change",
        DDP,
        _without("static_graph"),
        lambda self, *args, **options: options.get("static_graph", False),
    ),
    replacing(
        "bucket_views_are_ignored",
        "gradients are copies of what is in the buckets",
        DDP,
        _without("gradient_as_bucket_view"),
        lambda self, *args, **options: options.get("gradient_as_bucket_view", False),
    ),
)


def _named(faults: Iterable[Mutant], *names: str) -> tuple[Mutant, ...]:
    """Those of another suite's faults that are this one's business too."""
    found = tuple(each for each in faults if each.name in names)
    assert len(found) == len(names), "a fault has another name now"
    return found


def _untraced(mutant: Mutant) -> Mutant:
    """A fault in a collective's kernel, which dynamo leaves alone when compiled DDP comes to call it."""
    register = kernels._register

    def put(operator, key, function):
        register(operator, key, torch._dynamo.disable(function))

    def outside(plant):
        def planted(touch):
            with mock.patch.object(kernels, "_register", put):
                plant(touch)

        return planted

    return replace(mutant, plant=outside(mutant.plant), watch=mutant.watch and outside(mutant.watch))


MUTANTS: tuple[Mutant, ...] = (
    *SPLITS,
    *PIECES,
    *RANKS,
    *OPTIONS,
    *_named(COMPILED, "compile_is_a_noop", "outputs_times_3", "gradients_doubled"),
    *COMPILERS,
    *CHECKPOINTS,
    # Not those within DDP's forward, which dynamo traces. What they do wrong the collectives below do too.
    *_named(DDP_FAULTS, "no_sync_synchronizes", "ddp_ignores_comm_hooks"),
    *map(_untraced, _named(REDUCTIONS, "all_reduce_is_identity")),
    *map(_untraced, _named(MOVES, "broadcast_from_wrong_source", "all_to_all_single_reverses")),
)

__all__ = ["MUTANTS", "SURVIVORS"]
