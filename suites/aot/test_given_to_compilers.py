"""What AOTAutograd gives to compilers, and what it notes of inputs and outputs: as a file has it.

The file is ``given_to_compilers.txt``. Values are right, too, where a graph does more than it has to, saves
more or hides less. A section that is not as torch has it is shown as it would have to be.
"""

from __future__ import annotations

import sys
import unittest
from enum import Enum
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from functorch.compile import aot_function, default_partition, make_boxed_func
from torch._functorch import config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext, tracing
from torch._subclasses import FakeTensorMode
from torch.utils._pytree import tree_leaves

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.aot.programs_of_two_matrices import PROGRAMS, expensive, fused, normalized, recomputed, reduced
from suites.aot.table_case import TableCase

#: Tests that the programs are spread over.
PARTS = 4


#: Programs that are given to the partitioner again, and by which settings of its.
PARTITIONED = (fused, expensive, reduced, recomputed, normalized)
BY_SETTINGS = (fused, expensive, reduced)
SETTINGS = (
    {"activation_memory_budget": 0.0},
    {"activation_memory_budget": 0.5},
    {"aggressive_recomputation": True},
    {"recompute_views": True},
)


def noted(of):
    """What a record of an input or output says, without what is false, none or a tensor."""
    said = []
    for name in sorted(vars(of) if hasattr(of, "__dict__") else of.__dataclass_fields__):
        value = getattr(of, name)
        if value is True:
            said.append(name)
        elif isinstance(value, int) and value is not False:
            said.append(f"{name}={value}")
        elif isinstance(value, Enum):
            said.append(value.name)
        elif isinstance(value, set | frozenset) and value:
            said.append(f"{name}={sorted(value)}")
    return " ".join(said)


def compiled(program, partition):
    """The graphs that the compilers get, with what is noted of inputs and outputs; and what came of it."""
    lines, contexts = [], TracingContext(FakeTensorMode())

    def compiler(name):
        def compile_graph(graph, inputs):
            code = graph.code.strip().splitlines()[1:]
            shapes = " ".join(
                str(tuple(each.shape)) if hasattr(each, "shape") else str(each) for each in inputs
            )
            lines.append(f"{name} of {shapes}")
            lines.extend(line.partition(";  ")[0].rstrip() for line in code if line.strip())
            metadata = contexts.fw_metadata
            if name == "forward" and metadata is not None:
                lines.extend(f"input: {noted(each)}" for each in metadata.input_info)
                lines.extend(f"output: {noted(each)}" for each in metadata.output_info)
            return make_boxed_func(graph.forward)

        return compile_graph

    function = aot_function(
        program,
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        partition_fn=partition,
        keep_inference_input_mutations=True,
    )
    with tracing(contexts):
        found = ran(function)
    return lines, found


def ran(function):
    """What comes of two calls: results and gradients, how they lie in memory, and the inputs afterwards."""
    torch.manual_seed(0)
    found = []
    for _ in range(2):
        x, y = torch.rand(4, 4, requires_grad=True), torch.rand(4, 4)
        results = tree_leaves(function(x, y))
        tensors = [each for each in results if isinstance(each, torch.Tensor)]
        memory = [each.untyped_storage().data_ptr() for each in (x, y)]
        for each in tensors:
            shared = [each.untyped_storage().data_ptr() == of for of in memory]
            found.append((each.dtype, each.shape, each.stride(), each.requires_grad, each.is_leaf, shared))
        sums = [(each * n).sum() for n, each in enumerate(tensors, 1) if each.requires_grad]
        sum(sums[1:], sums[0]).backward()
        values = [each.detach().clone() for each in (*tensors, x, y, x.grad)]
        found.append([len(results), x.grad.stride(), y.stride(), *values])
    return found


def saved(program):
    """What the partitioner has the forward save, and how many operators the backward then has."""
    lines, _ = compiled(program, min_cut_rematerialization_partition)
    at = next(number for number, line in enumerate(lines) if line.startswith("backward"))
    returned = next(line for line in lines[:at] if line.startswith("    return"))
    calls = sum("torch.ops" in line for line in lines[at:])
    return f"{returned.strip()}, then {calls}"


@unittest.skipUnless(torch_at_least("2.13"), "the graphs are those of torch 2.13")
class GivenToCompilersTest(TableCase):
    """Programs of two square matrices, of which the first wants a gradient."""

    accepted = Path(__file__).with_name("given_to_compilers.txt")

    def check_program(self, name, program, partition):
        lines, found = compiled(program, partition)
        self.check(name, lines)
        with self.subTest(name):
            self.assertEqual(found, ran(program), rtol=1e-6, atol=1e-6)

    def check_part(self, part):
        for program in PROGRAMS[part::PARTS]:
            self.check_program(program.__name__, program, default_partition)

    def test_graphs(self):
        self.check_part(0)

    def test_graphs_of_a_second_part(self):
        self.check_part(1)

    def test_graphs_of_a_third_part(self):
        self.check_part(2)

    def test_graphs_of_a_fourth_part(self):
        self.check_part(3)

    def test_what_is_saved(self):
        for program in PARTITIONED:
            name = f"{program.__name__}, partitioned"
            self.check_program(name, program, min_cut_rematerialization_partition)

    def test_what_is_saved_by_settings(self):
        for setting in SETTINGS:
            with config.patch(setting):
                found = [f"{program.__name__}: {saved(program)}" for program in BY_SETTINGS]
            self.check(" ".join(f"{name}={value}" for name, value in setting.items()), found)


if __name__ == "__main__":
    run_tests()
