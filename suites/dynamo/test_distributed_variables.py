"""What dynamo makes of groups, meshes and modules' hooks, as ``distributed_variables.txt`` has it.

One process is rank 7 of 12 in a group that moves nothing. A section is a program; one that is not as torch
has it is shown as it would have to be.
"""

from __future__ import annotations

import operator
import re
import sys
import unittest
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch import nn
from torch._dynamo import compiled_autograd
from torch._dynamo.source import GlobalSource
from torch._dynamo.variables import distributed as variables
from torch.distributed import distributed_c10d as c10d
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.fx.experimental._backward_state import BackwardState

from harness import DynamoTestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.accepted_sections import accepted_sections, check_section
from suites.spmd.test_meshes import as_rank

ACCEPTED = Path(__file__).with_name("distributed_variables.txt")
#: Programs of a tensor ``x``, a mesh, a group ``pair`` that has this rank, and one of ``others``.
EXPRESSIONS = (
    "x * dist.get_world_size(dist.group.WORLD)",
    "x * dist.get_rank(dist.GroupMember.WORLD)",
    "x + dist.group.WORLD.size() * 100 + dist.GroupMember.WORLD.rank()",
    "(x + 1, dist.group.WORLD is dist.GroupMember.WORLD, dist.group.WORLD is pair)",
    "(x + 1, pair is dist.GroupMember.NON_GROUP_MEMBER, others is dist.GroupMember.NON_GROUP_MEMBER)",
    "x * (2 if dist.group.WORLD == dist.group.WORLD else 3) * (5 if dist.group.WORLD == pair else 7)",
    "x * (2 if dist.group == dist.group else 3) * (5 if dist.group != dist.group else 7)",
    "x * (2 if dist.group is dist.GroupMember else 3)",
    "x * (2 if dist.group == dist.GroupMember else 3)",
    "x * {dist.group.WORLD: 7, pair: 5}[dist.group.WORLD]",
    "x * (2 if isinstance(dist.group.WORLD, dist.ProcessGroup) else 3)",
    "x * (2 if isinstance(dist.group, type) else 3) * (5 if type(dist.group) is type else 7)",
    "x * (2 if hasattr(dist.group, 'WORLD') else 3) * (5 if hasattr(dist.group, 'ELSE') else 7)",
    "x * dist.group.ELSE",
    "x + len(dist.group.__name__)",
    "x * dist.get_process_group_ranks(dist.group.WORLD)[3] + dist.get_process_group_ranks(pair)[1]",
    "x * c10d._get_group_size_by_name(pair.group_name)",
    "x * len(c10d._get_group_tag(pair).split(':'))",
    "x * (2 if c10d._rank_not_in_group(pair) else 3) * (5 if c10d._rank_not_in_group(None) else 7)",
    "(x + 1, c10d._resolve_group_name_by_ranks_and_tag([7, 10], tag) == pair.group_name)",
    "x * dist.get_group_rank(pair, 10) + dist.get_global_rank(pair, 0)",
    "x * mesh.size(0) + mesh.size() * mesh.ndim",
    "x * mesh['b'].get_local_rank() + mesh.get_local_rank('a')",
    "(x + 1, mesh.get_coordinate(), mesh.mesh_dim_names, tuple(mesh.shape))",
    "x * mesh.get_group('a').size() + mesh.get_group(1).rank()",
    "x * (2 if mesh == mesh else 3) * (5 if mesh['a'] == mesh['b'] else 7)",
    "DTensor.from_local(x, mesh, [Shard(0), Replicate()], run_check=False).to_local() + 1",
    "DTensor.from_local(x, mesh, (Replicate(), Partial()), run_check=False).shape[0] * x",
    "DTensor.from_local(x, mesh['a'], [Shard(dim=1)], shape=(2, 10), stride=(10, 1)).shape[1] * x",
    "DTensor.from_local(x, mesh, [Shard(0), Shard(1)]).redistribute(placements=[Replicate()] * 2).to_local()",
    "(x + 1, Shard(1).dim, Shard(1) == Shard(dim=1), Replicate() == Partial(), Partial('avg').reduce_op)",
    "(x + 1, Shard(1).is_shard(0), Shard(0).is_shard(dim=0), Replicate().is_replicate(), Shard(0))",
)
#: Functions that are asked of a value, as a compiler does that meets one.
QUESTIONS = ("is_from_local", "is_constant_pg_functions", "WorldMetaClassVariable.is_group_member_type")
#: Values that are a case of one of them, or nearly.
ASKED_OF = (
    *("DTensor.from_local", "DTensor.to_local", "c10d._get_group_size_by_name", "c10d._get_group_tag"),
    *("c10d._rank_not_in_group", "c10d._resolve_group_name_by_ranks_and_tag", "dist.get_process_group_ranks"),
    *(
        "dist.get_world_size",
        "dist.group",
        "dist.GroupMember",
        "dist.group.WORLD",
        "DTensor",
        "'group'",
        "None",
    ),
)
#: Calls of the classes themselves: what one keeps, and what it refuses.
CALLS = (
    *(
        f"WorldMetaClassVariable(dist.group).var_getattr(None, '{name}')"
        for name in ("WORLD", "NON_GROUP_MEMBER")
    ),
    "WorldMetaClassVariable(dist.group, source=GlobalSource('g')).source.name",
    "DistributedVariable(3, source=GlobalSource('g')).source.name",
    "vars(BackwardHookVariable(1, 2, 3, 4, source=GlobalSource('g')))",
    "BackwardHookVariable(1, 2, 3, 4).call_method(None, 'else', [], {})",
    "BackwardHookVariable(1, 2, 3, 4).call_method(None, 'setup_input_hook', [], {'other': 5})",
)
#: Those that look whether there is ``torch.distributed``.
WITHOUT = (
    "is_from_local(DTensor.from_local)",
    "is_constant_pg_functions(dist.get_process_group_ranks)",
    "WorldMetaClassVariable.is_group_member_type(dist.group)",
    "DistributedVariable(3)",
)
NAMES = {
    "dist": dist,
    "c10d": c10d,
    **{each.__name__: each for each in (DTensor, Partial, Replicate, Shard)},
}
REFUSALS = (
    AssertionError,
    AttributeError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)
#: What a backward has many calls of.
_SMALL = (operator.getitem,)
_PASSING = re.compile(r" at 0x[0-9a-f]+|0x[0-9a-f]+|;.*|\s+$")


def described(value):
    """A result in words."""
    if isinstance(value, torch.Tensor):
        return f"{list(value.shape)} {value.flatten().tolist()[:3]}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(described, value))})"
    return _PASSING.sub("", repr(value))


def noting(lines):
    """A backend that writes graphs down and runs them as they are."""

    def compiler(graph, inputs):
        lines.append(f"graph of {' '.join(type(each).__name__ for each in inputs)}")
        lines.extend(_PASSING.sub("", line) for line in graph.code.strip().splitlines()[1:])
        for node in graph.graph.nodes:
            example = node.meta.get("example_value")
            if isinstance(example, torch.utils.hooks.BackwardHook | BackwardState):
                lines.append(
                    f"    {node.name} {node.op} is {type(example).__name__}{closed_over(node.target)}"
                )
        return graph.forward

    return compiler


def noting_calls(lines):
    """A backend that writes down which functions a graph calls."""

    def compiler(graph, inputs):
        called = (node.target for node in graph.graph.nodes if node.op == "call_function")
        lines.append(f"backward calls {' '.join(each.__name__ for each in called if each not in _SMALL)}")
        return graph.forward

    return compiler


def closed_over(function):
    """The names that a function in a graph looks hooks up by."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    return "".join(
        f" {name}={cell.cell_contents}"
        for name, cell in zip(names, getattr(function, "__closure__", None) or (), strict=True)
    )


def first_line(error):
    """What an error is, and what dynamo could not do."""
    told = [each.strip() for each in str(error).splitlines() if each.strip()]
    what = next((each for each in told if each.startswith(("Explanation", "Hint"))), "")
    return " ".join((f"{type(error).__name__}:", *told[:1], what)).rstrip()


def lines_of(expression):
    """Graph and result of a program, for two tensors."""
    lines = []
    torch._dynamo.reset()
    mesh = init_device_mesh("cpu", (4, 3), mesh_dim_names=("a", "b"))
    names = {**NAMES, "mesh": mesh, "pair": dist.new_group([7, 10]), "others": dist.new_group([0, 1])}
    names["tag"] = c10d._get_group_tag(names["pair"])
    program = torch.compile(eval(f"lambda x: {expression}", names), backend=noting(lines), fullgraph=True)
    try:
        for number in (1.0, 2.0):
            lines.append(described(program(torch.full((2, 3), number))))
    except REFUSALS as error:
        lines.append(_PASSING.sub("", first_line(error)))
    return lines


def answer(call):
    """What a call of a class or function of the module gives, or how it is refused."""
    try:
        return described(eval(call, {**vars(variables), **NAMES, "GlobalSource": GlobalSource}))
    except REFUSALS as error:
        return _PASSING.sub("", first_line(error))


def hooked(lines, *, before=0, after=0, changes=True):
    """A layer with so many hooks on its backward, each of which notes what it gets."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(3, 2), nn.Tanh())

    def noted(name, factor):
        def hook(module, *slopes):
            given = [None if each is None else list(each.shape) for group in slopes for each in group]
            lines.append(f"{name} {type(module).__name__} {given}")
            return tuple(each * factor for each in slopes[0] if each is not None) if changes else None

        return hook

    for number in range(before):
        model[1].register_full_backward_pre_hook(noted(f"before {number}", 2 + number))
    for number in range(after):
        model[1].register_full_backward_hook(noted(f"after {number}", 5 + number))
    return model


@unittest.skipUnless(torch_at_least("2.13"), "the graphs are those of torch 2.13")
class DistributedVariablesTest(DynamoTestCase):
    """Programs of groups, meshes and placements, and layers with hooks."""

    def setUp(self):
        super().setUp()
        self.sections = accepted_sections(ACCEPTED)

    def check(self, name, lines):
        check_section(self, self.sections, name, lines)

    def test_programs(self):
        with as_rank(7):
            for expression in EXPRESSIONS:
                self.check(expression, lines_of(expression))

    def test_questions(self):
        with as_rank(7):
            for question in QUESTIONS:
                ask = eval(question, vars(variables))
                self.check(question, [f"{each}: {ask(eval(each, NAMES))}" for each in ASKED_OF])

    def test_another_world(self):
        """A graph that has read the world's group is compiled anew in another world."""
        lines = []
        program = torch.compile(lambda x: x + dist.group.WORLD.rank(), backend=noting(lines), fullgraph=True)
        for rank in (7, 7, 3):
            with as_rank(rank):
                lines.append(described(program(torch.ones(2))))
        self.check("another world", lines)

    def test_another_marker(self):
        """So is one that has read what stands for a group which the rank is not in."""
        lines = []
        program = torch.compile(
            lambda x, group: x + (group is dist.GroupMember.NON_GROUP_MEMBER),
            backend=noting(lines),
            fullgraph=True,
        )
        with as_rank(7):
            others = dist.new_group([0, 1])
            for marker in (others, others, object()):
                with mock.patch.object(dist.GroupMember, "NON_GROUP_MEMBER", marker):
                    lines.append(described(program(torch.ones(2), others)))
        self.check("another marker", lines)

    def test_calls(self):
        self.check("calls", [f"{each}: {answer(each)}" for each in CALLS])

    def test_calls_without_distributed(self):
        with mock.patch.object(dist, "is_available", lambda: False):
            self.check("calls without distributed", [f"{each}: {answer(each)}" for each in WITHOUT])

    def check_hooks(self, **how):
        """Graphs of a layer and its backward, the order of its hooks, and gradients."""
        torch._dynamo.reset()
        lines, calls = [], []
        x = torch.rand(4, 3, requires_grad=True)
        model = hooked(calls, **how)
        expected = self.slopes(model, x)
        in_eager = calls[:]
        calls.clear()
        compiled = torch.compile(model, backend=noting(lines), fullgraph=True)

        def backward(graph):
            return torch.compile(graph, backend=noting_calls(lines), fullgraph=True)

        try:
            with compiled_autograd._enable(backward):
                found = self.slopes(compiled, x)
            self.assertEqual((found, calls), (expected, in_eager))
        except REFUSALS as error:
            lines.append(first_line(error))
        self.check(f"hooks: {' '.join(f'{name}={value}' for name, value in how.items())}", [*lines, *calls])

    def slopes(self, model, x):
        return torch.autograd.grad(model(x).sin().sum(), [x, *model.parameters()])

    def test_hooks(self):
        for how in ({"before": 1}, {"after": 2}, {"before": 2, "after": 1}, {"after": 1, "changes": False}):
            self.check_hooks(**how)

    def test_hooks_of_an_ordinary_backward(self):
        lines = []
        model = torch.compile(hooked(lines, after=1), backend=noting(lines), fullgraph=True)
        try:
            model(torch.rand(4, 3, requires_grad=True))
        except REFUSALS as error:
            lines.append(first_line(error))
        self.check("hooks of an ordinary backward", lines)


if __name__ == "__main__":
    run_tests()
