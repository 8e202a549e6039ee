"""What the partitioner saves and what it computes again: by operator, option, and mark of checkpointing.

What comes of it is a trade of memory for time, and never another gradient: each function here is compared
with eager, too.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from functorch.compile import aot_function, default_partition, min_cut_rematerialization_partition
from torch._functorch import config
from torch.nn import functional as F
from torch.utils.checkpoint import CheckpointPolicy

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import Capture, compilers_of
from suites.aot.base import AotTestCase

aten = torch.ops.aten
SEED = 7
#: Functions of a square matrix that are cheap beside what it takes to keep their results.
CHEAP = {
    "sum": lambda x: x.sum(0, keepdim=True).expand(x.shape),
    "mean": lambda x: x.mean(1, keepdim=True).expand(x.shape),
    "amax": lambda x: x.amax(1, keepdim=True).expand(x.shape),
    "var": lambda x: x.var(1, keepdim=True).expand(x.shape),
    "argmax": lambda x: x * x.argmax(),
    "_to_copy": lambda x: x.double().float(),
    "squeeze": lambda x: x.unsqueeze(0).squeeze(0).sigmoid(),
    "select": lambda x: x.select(0, 1).expand(x.shape),
    "slice": lambda x: x[:, :1].expand(x.shape),
    "triu": lambda x: x.triu(1),
    "t": lambda x: x.t(),
    "permute": lambda x: x.permute(1, 0),
    "view": lambda x: x.view(-1).view(x.shape),
    "gather": lambda x: x.gather(0, torch.zeros(x.shape, dtype=torch.long)),
    "index": lambda x: x[torch.arange(x.shape[0])],
    "as_strided": lambda x: x.as_strided(x.shape, (1, x.shape[0])),
    "split": lambda x: x.split(1)[0].expand(x.shape),
    "full_like": lambda x: x * torch.full_like(x, 2.0),
    "new_zeros": lambda x: x + x.new_zeros(x.shape[1]),
    "ones": lambda x: x * torch.ones(x.shape[1]),
    "any": lambda x: x * (x > 0).any(),
    "clone": lambda x: x.clone(),
    "where": lambda x: torch.where(x > 0, x, 2 * x),
    "remainder": lambda x: x.remainder(2.0),
}
#: Those that take long, so that their results are kept; of a square matrix, too.
COSTLY = {
    "mm": lambda x: x @ x,
    "bmm": lambda x: torch.bmm(x[None], x[None])[0],
    "addmm": lambda x: torch.addmm(x, x, x),
    "convolution": lambda x: F.conv2d(x[None, None], x[None, None, :3, :3], padding=1)[0, 0],
}


class SavedTest(AotTestCase):
    """Which results of the forward the backward gets."""

    def graphs(self, f, *inputs, cut=min_cut_rematerialization_partition, marks=None, **options):
        """The graphs of ``f``'s forward and backward, whose gradients are compared with eager's.

        ``marks`` are policies of checkpointing by the names of nodes.
        """
        capture = Capture()
        compilers = capture.around(compilers_of("nop"))

        def marking(module, arguments, **rest):
            for node in module.graph.nodes:
                if node.name in (marks or {}):
                    node.meta.update(recompute=marks[node.name], ac_graph_id=0)
            return cut(module, arguments, **rest)

        with config.patch(options):
            compiled = aot_function(f, compilers.forward, compilers.backward, partition_fn=marking)
            torch.manual_seed(SEED)
            found = torch.autograd.grad(compiled(*inputs).sum(), inputs)
            torch.manual_seed(SEED)
            expected = torch.autograd.grad(f(*inputs).sum(), inputs)
        self.assertEqual(found, expected)
        return capture.graphs

    def saved(self, f, *inputs, **options):
        """The names of the values that the forward gives to the backward beside its one result."""
        forward, _ = self.graphs(f, *inputs, **options)
        return sorted(node.name for node in forward.outputs[1:])

    def square(self, size=8):
        return torch.randn(size, size, requires_grad=True)

    def test_cheap_operators_are_computed_again(self):
        """The cosines' backward wants what the operators make, and the sine's what it is made of."""

        def cheap(x):
            return sum(operator(x.sin()).cos() for operator in CHEAP.values())

        options = ("ban_recompute_reductions", "ban_recompute_materialized_backward")
        saved = self.saved(
            cheap, self.square(), ban_recompute_used_far_apart=False, **dict.fromkeys(options, False)
        )
        self.assertEqual(saved, ["primals_1"])

    def test_costly_operators_are_kept(self):
        def costly(x):
            return sum(operator(x.sin()).cos() for operator in COSTLY.values())

        for allowed in (True, False):  # by a list of those that may be computed again, or that may not
            saved = self.saved(costly, self.square(), ban_recompute_not_in_allowlist=allowed)
            for name in COSTLY:
                self.assertIn(name, saved, f"by a list of those that may: {allowed}")

    def test_random_numbers_are_kept(self):
        """They would be others the second time."""

        def random(x):
            drawn = x.sin() * torch.rand_like(x).exp() * torch.randn_like(x).exp()
            return F.dropout(drawn, 0.5).sin()

        for allowed in (True, False):
            _, backward = self.graphs(random, self.square(), ban_recompute_not_in_allowlist=allowed)
            targets = [str(node.target) for node in backward.module.graph.nodes]
            self.assertEqual([each for each in targets if "rand" in each or "native_dropout.d" in each], [])

    def test_reductions(self):
        """The sum of a row of 16 is kept: it is small, and reads the whole row."""

        def weighed(x):
            return x.sin().sum(1, keepdim=True).cos() * x

        self.assertEqual(self.saved(weighed, self.square(16)), ["primals_1", "sum_1"])
        self.assertEqual(self.saved(weighed, self.square(3)), ["primals_1"])  # not 4 times as small
        banned = self.saved(weighed, self.square(16), ban_recompute_reductions=False)
        self.assertEqual(banned, ["primals_1"])

    def test_long_chains(self):
        """Of more than a hundred operators one in the midst is kept."""

        def sines(x):
            for _ in range(104):
                x = x.sin()
            return x

        self.assertEqual(self.saved(sines, self.square(2)), ["primals_1", "sin_101"])

    def test_what_the_backward_needs_in_memory(self):
        """A product's factor has to be in memory for the backward's product, and so may as well be kept."""

        def product(a, b):
            return (a.cos() @ b).cos().cos()

        inputs = self.square(), self.square()
        kept = ["mm", "primals_1", "t", "t_1"]
        self.assertEqual(self.saved(product, *inputs), kept)
        fewer = ["mm", "primals_1", "t_1"]
        self.assertEqual(self.saved(product, *inputs, ban_recompute_materialized_backward=False), fewer)
        self.assertEqual(self.saved(product, *inputs, aggressive_recomputation=True), fewer)

    def test_budget_of_memory(self):
        """From nothing but inputs to what is quickest; between them the products that cost most to repeat."""

        def products(a):
            for _ in range(3):
                a = (a @ a).sin()
            return a

        sizes = [
            len(self.saved(products, self.square(), activation_memory_budget=budget))
            for budget in (0.0, 0.5, 1.0)
        ]
        self.assertEqual((sizes[0], sizes), (1, sorted(set(sizes))))
        for budget in (-0.1, 1.1):
            with self.assertRaisesRegex(RuntimeError, "valid ranges for memory budget are 0 <= m <= 1"):
                self.saved(products, self.square(), activation_memory_budget=budget)

    def test_smaller_of_two(self):
        """A mask is kept in place of the numbers that it was made of."""
        self.assertEqual(self.saved(lambda x: torch.where(x > 0, x, 0 * x), self.square()), ["gt"])

    def test_marks_of_checkpointing(self):
        def product(a, b):
            return (a.cos() @ b).cos().cos()

        inputs = self.square(), self.square()
        for policy in (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE):
            saved = self.saved(product, *inputs, marks={"mm": policy})
            self.assertNotIn("mm", saved, policy)
        for policy, kept in ((CheckpointPolicy.MUST_SAVE, True), (CheckpointPolicy.PREFER_SAVE, False)):
            chain = self.saved(lambda x: x.cos().cos().cos(), self.square(), marks={"cos_1": policy})
            self.assertEqual(chain != ["primals_1"], kept, policy)

    def test_default_partition_keeps_what_the_backward_reads(self):
        """It computes nothing again, but what is marked."""

        def product(a, b):
            return (a.cos() @ b).cos().cos()

        inputs = self.square(), self.square()
        forward, backward = self.graphs(product, *inputs, cut=default_partition)
        self.assertEqual(
            len(backward.module.graph.find_nodes(op="call_function", target=aten.cos.default)), 0
        )
        marks = {"cos_1": CheckpointPolicy.MUST_RECOMPUTE, "mm": CheckpointPolicy.MUST_RECOMPUTE}
        forward, backward = self.graphs(product, *inputs, cut=default_partition, marks=marks)
        self.assertEqual(
            len(backward.module.graph.find_nodes(op="call_function", target=aten.cos.default)), 1
        )
        self.assertNotIn("mm", [node.name for node in forward.outputs])


if __name__ == "__main__":
    run_tests()
