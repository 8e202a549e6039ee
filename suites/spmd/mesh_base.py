"""The ground that the tests of traced mesh collectives stand on: ranks, a mesh, and ways to look at a graph.

Owns the mesh of a test, the order in which ranks arrive, and the comparison of a traced program with the
answer of ``mesh_programs``. The ranks and their default group are kept from test to test: with eight ranks on
two cores everything else would be starting them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

# Tracing imports these at first use: a second a rank, unless the process that ranks are forked from has them.
import torch._dynamo
import torch.distributed as dist
import torch.fx.experimental.symbolic_shapes
from torch.distributed.device_mesh import DeviceMesh
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from harness import DTensorContinuousTestBase
from harness.cases import defaults
from harness.graphs import collectives, insert_waits, unwaited
from harness.graphs.collective_waits import waits
from harness.targets import Capability, needs
from suites.spmd.mesh_programs import Arrays, Axis, Program

#: What is added to the inputs that a program is traced on, and to those that it then runs on: recorded values
#: would be seen.
TRACED_ON, RUN_ON = 1.0, (0.0, 5.0)


@needs(Capability.FUNCTIONAL, Capability.POINT_TO_POINT)
class MeshTestCase(DTensorContinuousTestBase):
    """A test of collectives over the dimensions of ``layout``, the global ranks of a mesh."""

    rank_modes = ("pooled", "fresh")
    layout: ClassVar[Any]
    #: The most ranks with which each test tries every dimension of its mesh.
    all_axes_up_to: ClassVar[int] = 4

    def setUpRank(self) -> None:
        super().setUpRank()
        torch.manual_seed(self.rank)
        self.mesh = DeviceMesh(self.device_type, torch.tensor(self.layout))

    def tearDownRank(self) -> None:
        del self.mesh  # or its groups' connections stay open, and the ranks cannot be kept
        super().tearDownRank()

    @property
    def device(self) -> torch.device:
        """Where this rank's tensors live: an accelerator, those of its host in turn, or the CPU."""
        return defaults.device_of(self.rank, self.device_type)

    def axes(self) -> Iterator[Axis]:
        """Each dimension of the mesh, seen from this rank; worked out from ``layout`` without torch."""
        ranks = np.array(self.layout)
        own = np.argwhere(ranks == self.rank)[0]
        for dim in range(ranks.ndim):
            lines = np.moveaxis(ranks, dim, -1)
            members = tuple(int(rank) for rank in lines[tuple(np.delete(own, dim))])
            yield Axis(self.mesh, dim, members, int(own[dim]))

    def tried_axes(self) -> list[Axis]:
        """The dimensions over which a test tries its programs: all, or with more ranks than
        ``all_axes_up_to`` the one that falls to it."""
        return list(self.axes()) if self.world_size <= self.all_axes_up_to else [self.axis_of_test()]

    def axis_of_test(self) -> Axis:
        """The dimension that falls to this test by its name."""
        axes = list(self.axes())
        return axes[zlib.crc32(self._testMethodName.encode()) % len(axes)]

    def inputs(self, program: Program, axis: Axis, rank: int, added: float = 0.0, times: int = 1) -> Arrays:
        """What a rank puts in; so many times the rows."""
        given = [array + np.float32(added) for array in program.given(rank, axis.members)]
        return [np.concatenate([array + np.float32(more) for more in range(times)]) for array in given]

    def tensors(self, arrays: Arrays) -> list[torch.Tensor]:
        """The arrays as tensors of this rank's device."""
        return [torch.tensor(array, device=self.device) for array in arrays]

    def answer(self, program: Program, axis: Axis, added: float, times: int = 1) -> list[torch.Tensor]:
        """What this rank is to get."""
        given = [self.inputs(program, axis, rank, added, times) for rank in axis.members]
        return self.tensors(program.expected(given, axis.place))

    # -- the order of arrival

    def come_last(self, last: int, members: Sequence[int]) -> None:
        """Return at once on every member but ``last``, on which return when all others have come here."""
        token = torch.zeros(1, device=self.device)
        if self.rank != last:
            dist.send(token, last)
            return
        for member in members:
            if member != last:
                dist.recv(token, member)

    # -- checks

    def check(self, program: Program) -> None:
        """Check a program over ``tried_axes``: its graph, and what it returns traced, replayed and eagerly.

        The member that comes last does so when the others have begun.
        """
        for axis in self.tried_axes():
            traced = self.traced(program, axis)
            self.check_graph(traced, program)
            self.check_results(traced, program, axis)
            self.check_results(lambda *given, axis=axis: program.call(axis, *given), program, axis)

    def traced(self, program: Program, axis: Axis, mode: str = "real") -> GraphModule:
        """The program's graph over one axis, made from other numbers than it is to run on."""
        given = self.tensors(self.inputs(program, axis, self.rank, TRACED_ON))
        return make_fx(lambda *tensors: program.call(axis, *tensors), tracing_mode=mode)(*given)

    def check_graph(self, module: GraphModule, program: Program, times: int = 1) -> None:
        """Check that a graph holds the program, so many times, and waits for results before it reads them."""
        module.graph.lint()
        names = [node.target._schema.name.rpartition("::")[2] for node in collectives(module.graph)]
        self.assertEqual(tuple(names), times * program.collectives)
        self.assertEqual(len(waits(module.graph)), times * program.waits)
        self.assertEqual(unwaited(module.graph), [])
        baked = [name for name, _ in (*module.named_parameters(), *module.named_buffers())]
        self.assertEqual(baked, [], "the graph holds tensors of its own")

    def check_results(self, run: Callable[..., Any], program: Program, axis: Axis, times: int = 1) -> None:
        """Check what ``run`` returns on two sets of inputs, and that it leaves no collective behind.

        Inputs have so many ``times`` the rows that the program is traced on.
        """
        for added in RUN_ON:
            given = self.tensors(self.inputs(program, axis, self.rank, added, times))
            self.come_last(axis.members[program.late], axis.members)
            results = listed(run(*given))
            self.assertEqual(pending(), 0, f"collectives over {axis.dim} that nobody has waited for")
            answer = self.answer(program, axis, added, times)
            self.assertEqual(results, answer, f"over {axis.dim}, added {added}")

    def check_stale(self, module: GraphModule, right: GraphModule, program: Program, axis: Axis) -> None:
        """Check what a graph that does not wait returns before the last member comes: not the answer.

        ``module`` returns its results and what to wait for; ``right`` is the same with its waits, and returns
        the answer. Groups have two members.
        """
        own = self.inputs(program, axis, self.rank)
        last = axis.members[program.late]
        if self.rank == last:
            self.come_last(last, axis.members)
            _, unfinished = module(*self.tensors(own))
        else:
            with unwritten_memory_is_nan():
                results, unfinished = module(*self.tensors(own))
                results = [tensor.clone() for tensor in listed(results)]
            self.come_last(last, axis.members)
            if program.stale is not None:
                self.assertEqual(results, self.tensors(program.stale(own)), f"over {axis.dim}")
            else:  # the own half may be there already
                lacking = sum(int(tensor.isnan().sum()) for tensor in results)
                self.assertGreaterEqual(lacking, sum(tensor.numel() for tensor in results) // 2, axis.dim)
        for result in unfinished:
            if isinstance(result, torch.Tensor):
                torch.ops._c10d_functional.wait_tensor(result)
            else:
                result.wait()
        self.check_results(right, program, axis)


class unwritten_memory_is_nan:
    """A region in which new tensors that are not initialized hold NaN, and not what was there before."""

    def __enter__(self) -> None:
        self._before = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(True)

    def __exit__(self, *_: object) -> None:
        torch.use_deterministic_algorithms(self._before)


def returning_works(module: GraphModule) -> GraphModule:
    """A graph of one plain collective, changed to return its result and the collective's work."""
    insert_waits(module)
    (wait,) = waits(module.graph)
    (output,) = module.graph.find_nodes(op="output")
    output.args = ((output.args[0], (wait.args[0],)),)
    module.graph.erase_node(wait)
    module.recompile()
    return module


def listed(results: Any) -> list[torch.Tensor]:
    """One result or several, as a list."""
    return [results] if isinstance(results, torch.Tensor) else list(results)


def pending() -> int:
    """How many functional collectives of this process nobody has waited for."""
    return torch._C._distributed_c10d._get_work_registry_size()
