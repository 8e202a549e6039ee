"""What the min-cut partitioner weighs: its network of nodes with capacities, as ``flow_networks.txt`` has it.

A weight that is wrong changes what is saved of few programs only. A section is a program that is partitioned,
or one with sizes as symbols; one that is not as torch has it is shown as it would have to be.
"""

from __future__ import annotations

import copy
import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from functorch.compile import aot_function, default_partition, make_boxed_func
from torch._functorch import partitioners

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.accepted_sections import add_parts
from suites.aot.programs_to_partition import PROGRAMS
from suites.aot.table_case import TableCase
from suites.aot.weighed import weighed

#: Tests that the programs are spread over.
PARTS = 3


def network(program, dynamic):
    """What a program's joint graph is weighed by when it is cut; the first input has static data."""
    lines = []

    def partition(joint, inputs, **how):
        given = {**how, "static_lifetime_input_indices": [0]}
        with weighed(lines):
            graphs = partitioners.min_cut_rematerialization_partition(copy.deepcopy(joint), inputs, **given)
        for name, graph in zip(("forward", "backward"), graphs, strict=True):
            lines.append(f"{name}: {' '.join(node.name for node in graph.graph.nodes)}")
        return default_partition(joint, inputs, **how)

    function = aot_function(
        program,
        fw_compiler=lambda graph, _: make_boxed_func(graph.forward),
        partition_fn=partition,
        dynamic=dynamic,
    )
    torch.manual_seed(0)
    try:
        function(torch.rand(4, 4, requires_grad=True), torch.rand(4, 4))
    except RuntimeError as error:
        lines.append(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:70]}".rstrip())
    return lines


#: Programs with symbols as sizes: a number of elements in a weight is one, too.
SYMBOLIC = PROGRAMS[::4]


@unittest.skipUnless(torch_at_least("2.13"), "the networks are those of torch 2.13")
class FlowNetworksTest(TableCase):
    """A part of the programs; the tests of the others are added below."""

    accepted = Path(__file__).with_name("flow_networks.txt")

    def check_part(self, part):
        tried = [(program, program.__name__, None) for program in PROGRAMS]
        tried += [(program, f"{program.__name__} of symbols", True) for program in SYMBOLIC]
        for program, name, dynamic in tried[part::PARTS]:
            self.check(name, network(program, dynamic))


add_parts(FlowNetworksTest, PARTS)

if __name__ == "__main__":
    run_tests()
