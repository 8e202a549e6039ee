"""BERT in DDP, compiled: losses, logits and gradients by rank, beside copies that nothing compiled.

Each rank has tokens of its own, and draws its own dropout. What it must arrive at is computed in the rank by
itself: the loss of its own tokens, and the mean of the gradients that the plain model gets from each rank's.

The standard run compiles it by inductor in one process, which stands in for a rank; with ``--slow`` also on
ranks, and with DDP's static graph.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch

from harness import (  # noqa: F401  (unittest calls load_tests)
    DynamoTestCase,
    load_tests,
    memory_mb,
    run_tests,
    slow_test,
    timeout,
)
from harness.cases import defaults
from suites.dynamo import bert
from suites.dynamo.base import ComparesLearned, DdpRanksTestCase, learn
from suites.dynamo.models import FakeDDP
from suites.inductor import settle


class BertBodies(ComparesLearned):
    """Steps of a compiled model, and how many graphs DDPOptimizer makes of it with its default cap."""

    size, size_for_inductor = bert.SMALL, bert.SMALLER
    shape, graphs = bert.SMALL_BATCH, 2

    def prepare(self, backend):
        """Set the compiler up, and return a plain model.

        Inductor is to draw dropout as eager does, from the same generator.
        """
        settle()
        torch._dynamo.config.optimize_ddp = True
        torch._inductor.config.fallback_random = True
        return bert.bert(self.size_for_inductor if backend == "inductor" else self.size)

    def learned(self, model, module, which, device):
        """What ``model`` makes of a batch; ``module`` has its parameters."""
        batch = bert.batch_of(self.size, self.shape, which, device)
        bert.seed_dropout(which)
        return learn(model, of=module, loss=bert.loss_of, **batch)

    def check_steps(self, plain, compiled, module, rank, ranks, device):
        """Run two steps on each rank's tokens and compare this rank's."""
        for step in range(2):
            everybody = range(step * ranks, (step + 1) * ranks)
            alone = [self.learned(plain, plain, which, device) for which in everybody]
            mine = self.learned(compiled, module, everybody[rank], device)
            self.assertEqual(mine.loss, alone[rank].loss, **bert.ROUNDED)
            self.assertEqual(mine.output.logits, alone[rank].output.logits, **bert.ROUNDED)
            self.assertEqual(list(mine.gradients), list(alone[0].gradients))
            for name, gradient in mine.gradients.items():
                mean = torch.stack([learned.gradients[name] for learned in alone]).mean(0)
                self.assertEqual(gradient, mean, f"gradient of {name}", **bert.ROUNDED)


@bert.needs_bert
@timeout(bert.SMALL_S)
class BertFakeDdpTest(BertBodies, DynamoTestCase):
    """In one process, in a module that DDPOptimizer takes for DDP."""

    def check_bert(self, backend, *, cap_mb=25, graphs=None):
        device = torch.device(defaults.accelerator()[0])
        plain = bert.moved(self.prepare(backend), device)
        fake = FakeDDP(copy.deepcopy(plain), cap_mb)
        counter = self.counted(backend)
        compiled = torch.compile(fake, backend=counter)
        self.check_steps(plain, compiled, fake, 0, 1, device)
        self.assertEqual(counter.frame_count, graphs or self.graphs)

    def test_hf_bert_ddp_inductor(self):
        self.check_bert("inductor")

    @slow_test
    def test_hf_bert_ddp_aot_eager(self):
        self.check_bert("aot_eager")

    def test_hf_bert_ddp_with_a_small_cap(self):
        self.size = bert.SMALLER_TWICE  # two layers fill a bucket
        self.check_bert("aot_eager", cap_mb=1, graphs=3)


@bert.needs_bert
@timeout(bert.SMALL_S)
class BertDdpTest(BertBodies, DdpRanksTestCase):
    """On two ranks."""

    def check_bert(self, backend, *, static_graph=False):
        plain = bert.moved(self.prepare(backend), self.device_type)
        ddp = self.wrap(plain, static_graph=static_graph)
        counter = self.counted(backend)
        compiled = torch.compile(ddp, backend=counter)
        self.check_steps(plain, compiled, ddp, self.rank, self.world_size, self.device_type)
        self.assertEqual(counter.frame_count, self.graphs)
        self.assertEqual(ddp._get_ddp_logging_data().get("static_graph", 0), static_graph)

    @slow_test
    def test_hf_bert_ddp_inductor(self):
        self.check_bert("inductor")

    @slow_test
    def test_hf_bert_ddp_inductor_static_graph(self):
        self.check_bert("inductor", static_graph=True)

    def test_hf_bert_ddp_aot_eager(self):
        self.check_bert("aot_eager")

    @slow_test
    def test_hf_bert_ddp_aot_eager_static_graph(self):
        self.check_bert("aot_eager", static_graph=True)


@slow_test
@timeout(bert.FULL_SIZE_S)
@memory_mb(bert.FULL_SIZE_MB)
class BertFullSizeFakeDdpTest(BertFakeDdpTest):
    """With BERT's own sizes."""

    size = size_for_inductor = bert.FULL_SIZE
    shape, graphs = bert.FULL_BATCH, 14
    # Nearly every layer would be a graph.
    test_hf_bert_ddp_with_a_small_cap = None


@slow_test
@timeout(bert.FULL_SIZE_S)
@memory_mb(2 * bert.FULL_SIZE_MB)
class BertFullSizeDdpTest(BertDdpTest):
    """With BERT's own sizes."""

    size = size_for_inductor = bert.FULL_SIZE
    shape, graphs = bert.FULL_BATCH, 14


if __name__ == "__main__":
    run_tests()
