"""Tests which graph a call of a compiled step gets, how many there may be, and on which tensors they run."""

from __future__ import annotations

import copy
import unittest
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import SGD, Adam

from harness.errors import UsageError
from harness.graphs.train_step import compile
from suites.selftest.graphs.train_step.step_test_case import StepTestCase, compiled_of, sgd, sum_step


class Tied(nn.Module):  # type: ignore[misc]  # torch is not followed
    """A module with a parameter and a buffer under two names each, and a buffer that is not persistent."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)
        self.other.weight = self.one.weight
        self.register_buffer("scale", torch.ones(3))
        self.register_buffer("again", self.scale)
        self.register_buffer("passing", torch.zeros(3), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Applies one layer after the other."""
        self.passing.add_(1)
        return self.other(self.one(x)) * self.scale


class FlatStateTest(StepTestCase):
    """The tensors in ``flat_state``, and their order."""

    def test_order(self) -> None:
        module = Tied()
        optimizer = Adam([module.other.bias, module.one.weight, module.one.bias])
        x = torch.randn(4, 3)
        sum_step(module, optimizer, x)
        optimizer.zero_grad()
        step = compile()(sum_step)
        step(module, optimizer, x)
        one, other = module.one, module.other
        state = [
            optimizer.state[p][key]
            for p in (one.weight, one.bias, other.bias)
            for key in ("step", "exp_avg", "exp_avg_sq")
        ]
        tensors = [one.weight, one.bias, other.weight, other.bias]
        tensors += [module.scale, module.again, module.passing, *state]
        compiled = compiled_of(step)
        self.assertEqual([id(each) for each in compiled.flat_state], [id(each) for each in tensors])
        placeholders = compiled.gm.graph.find_nodes(op="placeholder")
        self.assertEqual(len(placeholders), len(tensors) + 2, "and the argument, and the learning rate")
        shapes = [tuple(node.meta["val"].shape) for node in placeholders[:-1]]
        self.assertEqual(shapes, [tuple(each.shape) for each in [*tensors, x]])
        self.assertIsInstance(placeholders[-1].meta["val"], torch.SymFloat)

    def test_trained_as_in_eager(self) -> None:
        self.same_as_eager(Tied())


class RetracedTest(StepTestCase):
    """Each change that needs a new graph; the first graph is used again once the change is undone."""

    def check(
        self, change: Any, restore: Any, *arguments: Any, step: Any = sum_step, graphs: int = 2
    ) -> None:
        """A call, one after ``change``, two after ``restore``: all equal to eager, with so many graphs."""
        module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
        changes = {0: change, 1: restore}
        number = {id(module): 0}

        def between(one: nn.Module, optimizer: Any) -> None:
            now = number.setdefault(id(one), 0)
            number[id(one)] = now + 1
            changes.get(now, lambda *_: None)(one, optimizer)

        inputs = [[torch.randn(4, 3), *arguments] for _ in range(4)]
        compiled = self.same_as_eager(module, step, inputs, between=between, graphs=graphs)
        self.assertIs(compiled.gm, compiled.graphs[0].gm)

    def test_nothing(self) -> None:
        self.check(lambda m, o: None, lambda m, o: None, graphs=1)

    def test_training(self) -> None:
        self.check(lambda m, o: m[1].eval(), lambda m, o: m[1].train())

    def test_constant(self) -> None:
        self.check(lambda m, o: setattr(m[1], "momentum", 0.7), lambda m, o: setattr(m[1], "momentum", 0.1))

    def test_forward_hook(self) -> None:
        handles: list[Any] = []

        def double(module: Any, inputs: Any, output: Tensor) -> Tensor:
            return 2 * output

        self.check(
            lambda m, o: handles.append(m[0].register_forward_hook(double)),
            lambda m, o: handles.pop(0).remove(),
        )

    def test_frozen(self) -> None:
        self.check(lambda m, o: m[0].requires_grad_(False), lambda m, o: m[0].requires_grad_(True))

    def test_part(self) -> None:
        parts: dict[int, Any] = {}

        def exchange(m: Any, o: Any) -> None:
            parts[id(m)], m[1] = m[1], nn.Identity()

        def restore(m: Any, o: Any) -> None:
            m[1] = parts.pop(id(m))

        module = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Linear(3, 2))
        step, optimizer, x = compile()(sum_step), sgd(module), torch.randn(4, 3)
        for change, graphs in ((exchange, 1), (restore, 2), (exchange, 2)):
            step(module, optimizer, x)
            self.assertEqual(len(compiled_of(step).graphs), graphs)
            change(module, optimizer)

    def test_hyper_parameter(self) -> None:
        self.check(
            lambda m, o: o.param_groups[0].update(weight_decay=0.5),
            lambda m, o: o.param_groups[0].update(weight_decay=0),
        )

    def test_param_groups(self) -> None:
        module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
        optimizer = SGD(module[0].parameters(), lr=0.1)
        step, x = compile()(sum_step), torch.randn(4, 3)
        step(module, optimizer, x)
        before = module[1].weight.clone()
        optimizer.add_param_group({"params": module[1].parameters(), "lr": 0.5})
        step(module, optimizer, x)
        self.assertNotEqual(module[1].weight, before)
        self.assertEqual(len(compiled_of(step).graphs), 2)

    def test_step_hook_of_the_optimizer(self) -> None:
        def negate(optimizer: Any, args: Any, kwargs: Any) -> None:
            for parameter in optimizer.param_groups[0]["params"]:
                parameter.grad.neg_()

        handles: list[Any] = []
        self.check(
            lambda m, o: handles.append(o.register_step_pre_hook(negate)),
            lambda m, o: handles.pop(0).remove(),
        )

    def test_grad_mode(self) -> None:
        def step(module: Any, x: Tensor) -> bool:
            return bool(module(x).requires_grad)

        module, _, x = self.linear()
        compiled = compile()(step)
        found = []
        for mode in (True, False, True):
            with torch.set_grad_enabled(mode):
                found.append(compiled(module, x))
        self.assertEqual(found, [True, False, True])
        self.assertEqual(len(compiled_of(compiled).graphs), 2)

    def test_default_dtype(self) -> None:
        def step(module: Any, x: Tensor) -> Tensor:
            return module(x).sum() + torch.ones(2)

        module, _, x = self.linear()
        compiled = compile()(step)
        found = []
        for dtype in (torch.float32, torch.float64, torch.float32):
            before = torch.get_default_dtype()
            torch.set_default_dtype(dtype)
            try:
                found.append(compiled(module, x).dtype)
            finally:
                torch.set_default_dtype(before)
        self.assertEqual(found, [torch.float32, torch.float64, torch.float32])

    def test_arguments(self) -> None:
        def step(module: Any, optimizer: Any, x: Tensor, *rest: Any) -> Any:
            for each in rest:
                x = each(x) if callable(each) else x * each
            return sum_step(module, optimizer, x)

        x = torch.randn(4, 3)
        calls: list[list[Any]] = [
            [x],
            [x, 2.0],
            [x, 2],
            [x, torch.tensor(2.0)],
            [x, torch.sin],
            [x, torch.cos],
            [x.double().float()[:2]],
            [torch.randn(3, 4).t()],
        ]
        again = [*calls, *calls]
        self.same_as_eager(nn.Linear(3, 2), step, again, graphs=len(calls))

    def test_one_tensor_twice(self) -> None:
        def step(module: Any, optimizer: Any, x: Tensor, y: Tensor) -> Any:
            x.add_(1)
            return sum_step(module, optimizer, y)

        x, y = torch.randn(4, 3), torch.randn(4, 3)
        self.same_as_eager(nn.Linear(3, 2), step, [[x, y], [x, x], [y, x]], graphs=2)

    def test_variables_around_the_function(self) -> None:
        scale, options = 1.0, {"shift": [0.0]}

        def step(module: Any, optimizer: Any, x: Tensor) -> Any:
            return sum_step(module, optimizer, x * scale + options["shift"][0])

        module, optimizer, x = self.linear()
        plain = copy.deepcopy(module)
        compiled, other = compile()(step), sgd(plain)
        for scale, options["shift"][0] in ((1.0, 0.0), (2.0, 0.0), (2.0, 3.0), (1.0, 0.0)):  # noqa: B007
            self.assertEqual(compiled(module, optimizer, x), step(plain, other, x))
            plain.zero_grad()
        self.assertEqual(len(compiled_of(compiled).graphs), 3)

    def test_module_and_optimizer(self) -> None:
        step, x = compile()(sum_step), torch.randn(4, 3)
        modules = [nn.Linear(3, 2), nn.Linear(3, 2)]
        optimizers = [sgd(each) for each in modules]
        for _ in range(2):
            for module, optimizer in zip(modules, optimizers, strict=True):
                before = module.weight.clone()
                step(module, optimizer, x)
                self.assertEqual(module.weight, before - 0.1 * x.sum(dim=0))
                self.assertIs(compiled_of(step).mod, module)
                self.assertIs(compiled_of(step).opt, optimizer)
        self.assertEqual(len(compiled_of(step).graphs), 2)

    def test_process_group(self) -> None:
        module, optimizer, x = self.linear()
        step = compile()(sum_step)
        step(module, optimizer, x)
        dist.destroy_process_group()
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        step(module, optimizer, x)


class StateTest(StepTestCase):
    """A graph uses state tensors that were replaced since it was traced."""

    def test_loaded(self) -> None:
        saved: dict[int, Any] = {}

        def between(module: nn.Module, optimizer: Any) -> None:
            state = saved.setdefault(id(module), copy.deepcopy(optimizer.state_dict()))
            optimizer.load_state_dict(copy.deepcopy(state))
            module.load_state_dict({n: t + 1 for n, t in module.state_dict().items()}, assign=True)
            optimizer.param_groups[0]["params"] = list(module.parameters())
            optimizer.state = type(optimizer.state)(
                dict, zip(module.parameters(), optimizer.state.values(), strict=True)
            )

        self.same_as_eager(
            nn.Linear(3, 2),
            optimizer=lambda module: Adam(module.parameters(), lr=0.1),
            between=between,
            warm_up=True,
        )


class BoundTest(StepTestCase):
    """``max_graphs`` limits the number of graphs."""

    def test_bound(self) -> None:
        module, optimizer, _ = self.linear()
        step = compile(max_graphs=2)(sum_step)
        for rows in (1, 2, 1, 2):
            step(module, optimizer, torch.randn(rows, 3))
        words = (
            r"the step has 2 graphs and this call fits none \(argument x: float32\[2, 3\] -> "
            r"float32\[3, 3\]\): keep that the same, pass what changes as a tensor, or give compile"
        )
        before = module.weight.clone()
        with self.assertRaisesRegex(UsageError, words):
            step(module, optimizer, torch.randn(3, 3))
        self.assertEqual(module.weight, before)
        step(module, optimizer, torch.randn(2, 3))

    def test_every_call_another_function(self) -> None:
        def step(module: Any, optimizer: Any, x: Tensor, loss: Any) -> Any:
            return sum_step(module, optimizer, loss(x))

        module, optimizer, x = self.linear()
        compiled = compile(max_graphs=1)(step)
        compiled(module, optimizer, x, lambda x: x + 1)
        with self.assertRaisesRegex(UsageError, r"argument loss: .*<lambda> at 0x\w+ -> .*<lambda> at 0x"):
            compiled(module, optimizer, x, lambda x: x + 1)


if __name__ == "__main__":
    unittest.main()
