"""BERT in DDP, compiled: losses, logits and gradients by rank, beside copies that nothing compiled."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch

from harness import DynamoTestCase, load_tests, memory_mb, run_tests, slow_test, timeout  # noqa: F401  (unittest calls load_tests)
from suites.dynamo import bert
from suites.dynamo.base import ComparesLearned, DdpRanksTestCase, learn
from suites.dynamo.models import FakeDDP
from suites.inductor import settle


class BertBodies(ComparesLearned):
    """The size of the model, and how many graphs DDPOptimizer makes of it."""

    size, shape, graphs = bert.SMALL, bert.SMALL_BATCH, 2
    steps = 2

    def prepare(self):
        """Inductor draws dropout as eager does, from the same generator."""
        settle()
        torch._dynamo.config.optimize_ddp = True
        torch._inductor.config.fallback_random = True

    def learned_by(self, model, of, which, device="cpu"):
        """What the model makes of one batch."""
        batch = {name: ids.to(device) for name, ids in bert.batch_of(of, self.shape, which).items()}
        bert.seed_dropout(which)
        return learn(model, of=of, loss=bert.loss_of, **batch)
