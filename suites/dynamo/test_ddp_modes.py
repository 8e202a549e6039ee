"""The ways in which compiled DDP reduces gradients: ``optimize_ddp`` by its four names.

With ``python_reducer`` the reduction is Python, and compiled autograd captures it with the backward. The
other modes leave it to the reducer in C++, which compiled autograd cannot capture.
"""

from __future__ import annotations

import copy
import sys
from contextlib import nullcontext
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch._dynamo import compiled_autograd, config
from torch._dynamo.utils import counters
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import captured_splits
from suites.dynamo.base import DdpRanksTestCase, learn
from suites.dynamo.models import EQUAL_WIDTHS, SMALL_WIDTHS, ToyModel

ROUNDED = {"rtol": 1e-4, "atol": 1e-6}
STEPS = 2
ROWS = 4  # a rank


class ModesTestCase(DdpRanksTestCase):
    """Trains the toy for some steps in a mode, beside a plain copy that is given the rows of all ranks.

    Once a process has made a DDP with the Python reducer, it traces DDP's own code ever after. So no rank is
    kept.
    """

    rank_modes = ("fresh",)

    def train(
        self,
        mode,
        *,
        widths=SMALL_WIDTHS,
        forward="aot_eager",
        backward=None,
        tolerance=ROUNDED,
        hook=None,
        **options,
    ):
        """Return the forward graphs' counter and the splits; ``collectives`` are how many each step issued.

        ``forward`` names a backend, ``backward`` the backend of compiled autograd; None, the backward
        is not captured.
        """
        config.optimize_ddp = mode
        plain = ToyModel(widths).to(self.device_type)
        ddp = self.wrap(plain, bucket_cap_mb=1)
        if hook is not None:
            ddp.register_comm_hook(None, hook)
        counter = self.counted(forward)
        compiled = torch.compile(ddp, backend=counter, **options)
        self.collectives = []
        with captured_splits() as splits:
            for _ in range(STEPS):
                rows = self.draw(self.world_size * ROWS, widths[0])
                expected = learn(plain, rows)
                captured = nullcontext() if backward is None else self.captured(backward)
                before = self.issued()
                with captured:
                    actual = learn(compiled, self.mine(rows), of=ddp)
                self.collectives.append(self.issued() - before)
                self.assertEqual(actual.output, self.mine(expected.output), **ROUNDED)
                self.assertEqual(actual.gradients, expected.gradients, **tolerance)
        return counter, splits

    def issued(self):
        """Return how many collectives the group has seen."""
        return dist.group.WORLD._get_sequence_number_for_group()

    def captured(self, backend):
        """A region whose backwards compiled autograd captures."""
        return compiled_autograd._enable(torch.compile(backend=backend))

    def all_reduces(self, counter):
        """Return how many all_reduces each captured graph has."""
        return [
            sum(str(node.target).startswith("_c10d_functional.all_reduce") for node in graph.graph.nodes)
            for graph in counter.graphs
        ]


class TestDdpModes(ModesTestCase):
    """Two ranks."""

    def test_ddp_optimizer(self):
        for mode in (True, "ddp_optimizer"):
            with self.subTest(mode=mode):
                torch._dynamo.reset()
                counter, splits = self.train(mode)
                self.assertEqual(counter.frame_count, 3)
                self.assertEqual([len(split.buckets) for split in splits], [3])

    def test_no_optimization(self):
        for mode in (False, "no_optimization"):
            with self.subTest(mode=mode):
                torch._dynamo.reset()
                counter, splits = self.train(mode)
                self.assertEqual((counter.frame_count, splits), (1, []))

    def test_python_reducer(self):
        # One all_reduce for each of the eight parameters; the second step needs nothing new.
        backward = self.counted()
        counter, splits = self.train("python_reducer", backward=backward, fullgraph=True)
        self.assertEqual((counter.frame_count, splits), (1, []))
        self.assertEqual(self.all_reduces(backward), [8])
        self.assertEqual(self.collectives, [8, 8])
        self.assertEqual(counters["compiled_autograd"]["captures"], 1)

    def test_python_reducer_uncaptured(self):
        counter, splits = self.train("python_reducer", fullgraph=True)
        self.assertEqual((counter.frame_count, splits), (1, []))

    def test_python_reducer_comm_hook(self):
        backward = self.counted()
        self.train(
            "python_reducer",
            backward=backward,
            hook=default_hooks.fp16_compress_hook,
            tolerance={"rtol": 2e-2, "atol": 1e-3},
        )
        self.assertEqual(self.all_reduces(backward), [8])
        halves = [
            node
            for node in backward.graphs[0].graph.nodes
            if str(node.target).startswith("_c10d_functional.all_reduce")
            and node.args[0].meta["example_value"].dtype == torch.float16
        ]
        self.assertEqual(len(halves), 8)

    def test_python_reducer_no_sync(self):
        # Gradients of two steps, of which only the second is reduced.
        config.optimize_ddp = "python_reducer"
        model = ToyModel(SMALL_WIDTHS).to(self.device_type)
        alone, ddp = copy.deepcopy(model), self.wrap(model, bucket_cap_mb=1)
        counter = self.counted("aot_eager")
        compiled = torch.compile(ddp, backend=counter)
        rows = self.draw(self.world_size * ROWS, SMALL_WIDTHS[0])
        backward = self.counted()
        expected = learn(alone, self.mine(rows))
        with ddp.no_sync(), self.captured(backward):
            actual = learn(compiled, self.mine(rows), of=ddp)
        self.assertEqual(actual.gradients, expected.gradients, **ROUNDED)
        self.assertEqual(self.all_reduces(backward), [0])
        expected = learn(model, rows)
        with self.captured(backward):
            actual = learn(compiled, self.mine(rows), of=ddp)
        self.assertEqual(actual.gradients, expected.gradients, **ROUNDED)
        self.assertEqual(self.all_reduces(backward), [0, 8])
        self.assertEqual(counter.frame_count, 1)

    def test_python_reducer_inductor(self):
        # Six reductions are captured. Inductor fuses them into as many as there are buckets of DDP's size.
        backward = self.counted("inductor")
        self.train("python_reducer", widths=EQUAL_WIDTHS[2:], backward=backward, fullgraph=True)
        self.assertEqual(self.all_reduces(backward), [6])
        self.assertEqual(self.collectives, [2, 2])

    def test_python_reducer_without_compiled_forward(self):
        # In torch 2.13 no more than no_optimization by another name.
        counter, splits = self.train("python_reducer_without_compiled_forward")
        self.assertEqual((counter.frame_count, splits), (1, []))

    def test_compiled_autograd_and_the_reducer_in_cpp(self):
        for mode in ("ddp_optimizer", "no_optimization", "python_reducer_without_compiled_forward"):
            with self.subTest(mode=mode):
                torch._dynamo.reset()
                with self.assertRaisesRegex(RuntimeError, 'use torch._dynamo.config.optimize_ddp="python_re'):
                    self.train(mode, forward="eager", backward="eager")

    def test_unknown_mode(self):
        config.optimize_ddp = "ddp_optimiser"
        with self.assertRaisesRegex(AssertionError, "Invalid dynamo config optimize_ddp value"):
            self.wrap(ToyModel(SMALL_WIDTHS))


if __name__ == "__main__":
    run_tests()
