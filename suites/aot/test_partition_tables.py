"""What partitioners save of joint graphs, and what they compute again, as ``partitions.txt`` has it.

Each program is traced once, and its joint graph is cut by several settings. Values are right, too, where more
is saved than has to be. A section that is not as torch has it is shown as it would have to be.
"""

from __future__ import annotations

import copy
import sys
import unittest
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from functorch.compile import aot_function, default_partition, make_boxed_func
from torch._functorch import config, partitioners
from torch._functorch.partitioners import min_cut_rematerialization_partition

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.aot.programs_to_partition import BY_SETTINGS, PROGRAMS
from suites.aot.table_case import TableCase

#: Tests that the programs are spread over.
PARTS = 4

#: The ways in which a joint graph is cut: a partitioner, what it is given, and settings.
WAYS = (
    ("default", default_partition, {}, {}),
    ("min cut", min_cut_rematerialization_partition, {}, {}),
    ("static input", min_cut_rematerialization_partition, {"static_lifetime_input_indices": [1]}, {}),
)
SETTINGS = (
    {"recompute_views": True},
    {"ban_recompute_used_far_apart": False, "max_dist_from_bw": 3},
    {"ban_recompute_not_in_allowlist": False},
    {"ban_recompute_reductions": False, "ban_recompute_materialized_backward": False},
    {"activation_memory_budget": 0.2, "activation_memory_budget_runtime_estimator": "testing"},
    {"activation_memory_budget": 0.5, "activation_memory_budget_runtime_estimator": "flops"},
    {"activation_memory_budget": 0.5, "activation_memory_budget_solver": "greedy"},
)
WAYS_BY_SETTINGS = tuple(
    (
        " ".join(f"{name}={value}" for name, value in settings.items()),
        min_cut_rematerialization_partition,
        {},
        settings,
    )
    for settings in SETTINGS
)


def described(forward, backward, results):
    """What is saved, and the operators of the backward, in their order."""
    returned = forward.graph.output_node().args[0]
    calls = [each.name for each in backward.graph.nodes if each.op not in ("placeholder", "output")]
    return f"{' '.join(map(str, returned[results:]))} | {' '.join(calls)}"


def cuts(program):
    """The joint graph's operators, and what comes of it in each way: once, with all ways that it comes of."""
    lines = []

    def cut(joint, inputs, *, num_fwd_outputs, **more):
        by_words = {}
        for name, partition, given, settings in WAYS + (WAYS_BY_SETTINGS if program in BY_SETTINGS else ()):
            how = {**more, **given}
            with config.patch(settings):
                graphs = partition(copy.deepcopy(joint), inputs, num_fwd_outputs=num_fwd_outputs, **how)
            by_words.setdefault(described(*graphs, num_fwd_outputs), []).append(name)
        lines.extend(f"{', '.join(names)}: {words}" for words, names in by_words.items())
        return default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **more)

    function = aot_function(
        program, fw_compiler=lambda graph, _: make_boxed_func(graph.forward), partition_fn=cut
    )
    torch.manual_seed(0)
    function(torch.rand(4, 4, requires_grad=True), torch.rand(4, 4))
    return lines


def names_of(operators):
    """Of operators, and of functions of numbers."""
    packet = torch._ops.OpOverloadPacket
    return sorted({str(each) if isinstance(each, packet) else each.__name__ for each in operators})


@unittest.skipUnless(torch_at_least("2.13"), "the cuts are those of torch 2.13")
class PartitionTablesTest(TableCase):
    """Programs of two square matrices, of which the first wants a gradient."""

    accepted = Path(__file__).with_name("partitions.txt")

    def check_part(self, part):
        for program in PROGRAMS[part::PARTS]:
            self.check(program.__name__, cuts(program))

    def test_programs(self):
        self.check_part(0)

    def test_programs_of_a_second_part(self):
        self.check_part(1)

    def test_programs_of_a_third_part(self):
        self.check_part(2)

    def test_programs_of_a_fourth_part(self):
        self.check_part(3)

    def test_kinds_of_operators(self):
        """Which operators are cheap, costly, random, views, or can be fused."""
        # These are found among the operators that this process has looked up so far.
        pointwise = set(names_of(partitioners.pointwise_ops.__wrapped__()))
        self.assertLessEqual({"aten.add", "aten.sin", "aten.where"}, pointwise)
        self.assertTrue(pointwise.isdisjoint({"aten.mm", "aten.sum", "aten.view"}))
        with mock.patch.object(partitioners, "pointwise_ops", return_value=[]):
            kinds = vars(partitioners.get_default_op_list())
        cheap = set(names_of(kinds["recomputable_ops"]))
        for name, operators in kinds.items():
            found = set(names_of(operators))
            beside = "" if name == "recomputable_ops" or not cheap <= found else "the recomputable ones and "
            self.check(name, [f"{beside}{' '.join(sorted(found - cheap if beside else found))}"])


if __name__ == "__main__":
    run_tests()
