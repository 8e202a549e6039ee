"""DDP around modules that run again in backward (``torch.utils.checkpoint``), in both of its modes.

Recomputing marks parameters as ready in the middle of backward, or twice; DDP must reduce each exactly once.
"""

from __future__ import annotations

import copy
import sys
from itertools import product
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.checkpoint import checkpoint

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.parametrization import instantiate_parametrized_tests, parametrize
from suites.c10d.ddp_base import SEED, DdpTestCase
from suites.c10d.ddp_models import (
    CheckpointOnceModule,
    CheckpointTwiceModule,
    CheckpointTwiceModuleWeightSharing,
    DynamicCheckpointTwiceModule,
    DynamicCheckpointTwiceModuleWeightSharing,
)

ROWS_PER_RANK, FEATURES = 16, 20
#: The first iteration finds the order of gradients, the second runs on the new buckets, the rest repeat it.
ITERATIONS = 5

BOTH = (False, True)
READY_TWICE = "Expected to mark a variable ready only once."


@instantiate_parametrized_tests
class DdpCheckpointingTest(DdpTestCase):
    """Gradients of checkpointed modules under DDP are those of the plain module on the rows of all ranks."""

    def check(self, model, *, whole=None, may_lack_gradients=False, **options):
        """Train a copy in DDP, with the options, beside a plain one, and compare gradients each time.

        ``whole``: checkpoint the model as a whole, with this value of ``use_reentrant``.
        """

        def loss(one, rows):
            x, target = rows.split(FEATURES, dim=1)
            x = x.detach().requires_grad_()
            result = one(x) if whole is None else checkpoint(one, x, use_reentrant=whole)
            return mse_loss(result, target)

        model = model.to(self.device)
        plain, ddp = copy.deepcopy(model), self.wrap(model, bucket_cap_mb=1, **options)
        self.assertEqual(bool(self.logged(ddp, "static_graph")), options.get("static_graph", False))
        for _ in range(ITERATIONS):
            plain.zero_grad(set_to_none=False)
            ddp.zero_grad(set_to_none=False)
            rows = self.draw(ROWS_PER_RANK * self.world_size, 2 * FEATURES)
            self.backward_beside(plain, ddp, rows, loss)
            lacking = [name for name, each in plain.named_parameters() if each.grad is None]
            self.assertTrue(may_lack_gradients or not lacking, lacking)
            self.same_gradients(plain, ddp)

    def check_refused(self, model, **options):
        """Check that backward in DDP with the options fails because a parameter was ready two times."""
        with self.assertRaisesRegex(RuntimeError, READY_TWICE):
            self.check(model, **options)

    @parametrize("use_reentrant", [True, False])
    def test_ddp_checkpointing_once(self, use_reentrant):
        for view, static in product(BOTH, BOTH):
            model = CheckpointOnceModule(use_reentrant)
            self.check(model, gradient_as_bucket_view=view, static_graph=static)
            if static:
                self.check(
                    model, gradient_as_bucket_view=view, static_graph=True, find_unused_parameters=True
                )

    @parametrize("use_reentrant", [True, False])
    def test_ddp_checkpointing_unused_params(self, use_reentrant):
        # With the search for unused parameters DDP does not see into a re-entrant checkpoint, and takes the
        # parameters in it for unused, so ready; a static graph needs no search.
        for view in BOTH:
            check = self.check_refused if use_reentrant else self.check
            check(
                CheckpointOnceModule(use_reentrant), gradient_as_bucket_view=view, find_unused_parameters=True
            )
            self.check(
                CheckpointOnceModule(use_reentrant),
                gradient_as_bucket_view=view,
                find_unused_parameters=True,
                static_graph=True,
            )

    @parametrize("use_reentrant", [True, False])
    def test_ddp_checkpointing_twice(self, use_reentrant):
        check = self.check_refused if use_reentrant else self.check
        for view, search in product(BOTH, BOTH):
            check(
                CheckpointTwiceModule(use_reentrant),
                gradient_as_bucket_view=view,
                find_unused_parameters=search,
            )

    @parametrize("use_reentrant", [True, False])
    def test_ddp_checkpointing_twice_static_graph(self, use_reentrant):
        for view in BOTH:
            self.check(CheckpointTwiceModule(use_reentrant), gradient_as_bucket_view=view, static_graph=True)

    def check_dynamic(self, model):
        for view in BOTH:
            self.check(
                copy.deepcopy(model),
                gradient_as_bucket_view=view,
                find_unused_parameters=True,
                may_lack_gradients=True,
            )

    def test_ddp_checkpointing_dynamic_module(self):
        self.check_dynamic(DynamicCheckpointTwiceModule(use_reentrant=False))

    def test_ddp_checkpointing_dynamic_weight_sharing(self):
        self.check_dynamic(DynamicCheckpointTwiceModuleWeightSharing(use_reentrant=False))

    @parametrize("use_reentrant", [True, False])
    def test_ddp_checkpointing_weight_sharing(self, use_reentrant):
        torch.manual_seed(SEED)
        for view, static in product(BOTH, BOTH):
            first, second = (nn.Linear(FEATURES, FEATURES) for _ in range(2))
            second.weight = first.weight
            self.check(
                nn.Sequential(first, second),
                whole=use_reentrant,
                gradient_as_bucket_view=view,
                static_graph=static,
            )

    def test_ddp_checkpointing_twice_weight_sharing(self):
        for view in BOTH:
            self.check(CheckpointTwiceModuleWeightSharing(), gradient_as_bucket_view=view, static_graph=True)


if __name__ == "__main__":
    run_tests()
