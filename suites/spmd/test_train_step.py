"""Train steps as one graph: forward, backward, gradient all-reduces and optimizer step, beside DDP.

The names of the tests are those of ``torch.distributed._spmd``'s, which is no longer part of torch. Each
trains for three steps on other inputs on each rank and compares with DDP.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Adam

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import Override, communication_bytes, count_collectives, train_step
from suites.spmd.train_step_base import STEPS, TrainStepTestCase, gradients_step
from suites.spmd.train_step_models import (
    DDM,
    AddingOptimizer,
    DataDependentModule,
    Doubling,
    DummyDDM,
    DummyModel,
    ModuleWithBuffer,
)


def rows():
    return [torch.randn(2, 10)]


class Counting(Override):
    """Counts the all-reduces of each graph."""

    def __init__(self):
        self.found = []

    def replacement(self, fqn, orig_submodule):
        return orig_submodule

    def transform(self, gm, flat_state):
        self.found.append(count_collectives(gm))
        return gm


class DoublesInsteadOfDdm(Override):
    """Puts an identity operator in the place of what cannot be traced, and doubles in the operator's."""

    def __init__(self):
        self.offered, self.targets = [], []

    def replacement(self, fqn, orig_submodule):
        self.offered.append(fqn)
        return DummyDDM() if isinstance(orig_submodule, DataDependentModule) else orig_submodule

    def transform(self, gm, flat_state):
        for node in list(gm.graph.nodes):
            if node.target in DDM:
                self.targets.append(node.target)
                with gm.graph.inserting_before(node):
                    twice = gm.graph.call_function(torch.add, (*node.args, *node.args))
                node.replace_all_uses_with(twice)
                gm.graph.erase_node(node)
        gm.graph.eliminate_dead_code()
        return gm


class TraceTrainStepTest(TrainStepTestCase):
    """The step of a small module, its graph and its overrides."""

    def test_train_step_simple(self):
        module = nn.Linear(10, 10)
        ddp = DistributedDataParallel(copy.deepcopy(module))
        step = train_step.compile()(gradients_step)
        found, expected = [], []
        for number in range(STEPS):
            torch.manual_seed(STEPS * self.rank + number)
            (inputs,) = rows()
            found.append(step(module, inputs))
            gradients_step(ddp, inputs)
            expected.append([parameter.grad.clone() for parameter in ddp.parameters()])
            ddp.zero_grad()
        self.assertEqual([[g / self.world_size for g in gradients] for gradients in found], expected)
        self.assertEqual(communication_bytes(step._compiled_obj.gm), 4 * (10 * 10 + 10))
        self.assertEqual(len(step._compiled_obj.graphs), 1)

    def test_sgd(self):
        compiled = self.check_beside_ddp(
            nn.Linear(10, 10), rows, lambda module: SGD(module.parameters(), lr=0.01, foreach=True)
        )
        updates = compiled.gm.graph.find_nodes(op="call_function", target=torch.ops.aten._foreach_add_.List)
        self.assertEqual(len(updates), 1)

    def check_adam(self, **kind):
        counting = Counting()
        self.check_beside_ddp(
            nn.Sequential(nn.Linear(10, 10, bias=False)),
            rows,
            lambda module: Adam(module.parameters(), lr=0.01, **kind),
            options={"module_override": [counting]},
        )
        self.assertEqual(counting.found, [{"all_reduce": 1}])

    def test_adam_foreach(self):
        self.check_adam(foreach=True)

    def test_adam_fused(self):
        self.check_adam(foreach=False, fused=True)

    def check_override(self, module, ddp_module, offered, targets):
        override = DoublesInsteadOfDdm()
        ddp_module.load_state_dict(module.state_dict())
        self.check_beside_ddp(
            module,
            lambda: [torch.randn(4, 10)],
            lambda module: SGD(module.parameters(), lr=0.01, foreach=False),
            warm_up=False,
            ddp_module=ddp_module,
            options={"module_override": [override]},
        )
        self.assertEqual(override.offered, offered)
        self.assertEqual(override.targets, targets)

    def test_module_override(self):
        offered = ["l1", "ddm", "l2", "relu"]
        self.check_override(DummyModel(DataDependentModule), DummyModel(Doubling), offered, [*DDM])

    def test_module_multi_fqn_override(self):
        def model(between):
            layers = [nn.Linear(10, 10), between(), nn.Linear(10, 10), between(), nn.ReLU()]
            return nn.Sequential(*layers)

        forward, backward = DDM
        targets = [forward, forward, backward, backward]
        self.check_override(model(DataDependentModule), model(Doubling), ["0", "1", "2", "3", "4"], targets)

    def test_gm_cache_and_transformation(self):
        given = []

        def transformation(gm):
            given.append(gm)
            return gm

        compiled = self.check_beside_ddp(
            nn.Linear(10, 10, bias=False),
            rows,
            lambda module: Adam(module.parameters(), lr=0.01, foreach=False),
            options={"gm_transformation": transformation},
        )
        self.assertEqual(len(given), 1)
        self.assertIs(compiled.gm, given[0])

    def test_buffer(self):
        compiled = self.check_beside_ddp(ModuleWithBuffer(), rows, AddingOptimizer)
        self.assertEqual([tensor.shape for tensor in compiled.flat_state], [(10, 10), (10,), (10, 10)])
        self.assertIs(compiled.flat_state[2], compiled.mod.dummy_buffer)

    def test_expand_dimension(self):
        compiled = self.check_beside_ddp(
            nn.Linear(10, 10),
            rows,
            lambda module: SGD(module.parameters(), lr=0.01, foreach=True),
            warm_up=False,
        )
        expanded = compiled.gm.graph.find_nodes(op="call_function", target=torch.ops.aten.expand.default)
        self.assertEqual([node.args[1] for node in expanded], [[2, 10]])


if __name__ == "__main__":
    run_tests()
