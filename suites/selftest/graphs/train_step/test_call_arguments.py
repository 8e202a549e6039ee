"""Tests how the arguments of a train step's call are sorted, and which calls are refused."""

from __future__ import annotations

import inspect
import unittest
from typing import Any

import torch
from torch import nn

from harness.errors import UsageError
from harness.graphs.train_step.call_arguments import StepCall, read_call
from harness.graphs.train_step.snapshots import GuardSnapshot
from suites.selftest.graphs.train_step.step_test_case import sgd


def step(module: Any, optimizer: Any = None, *rest: Any, scale: Any = 1.0, **named: Any) -> Any:
    """A step that returns its arguments."""
    return module, optimizer, rest, scale, named


def read(*args: Any, **kwargs: Any) -> StepCall:
    """The ``StepCall`` of a call of ``step`` with these arguments."""
    return read_call(inspect.signature(step), args, kwargs)


class ReadTest(unittest.TestCase):
    """``read_call`` finds the module, the optimizer and the tensors of a call."""

    def test_parts(self) -> None:
        module = nn.Linear(3, 2)
        optimizer, x, y = sgd(module), torch.ones(1), torch.zeros(2)
        call = read(module, optimizer, {"x": [x, None], "y": (y,)}, scale=2.0)
        self.assertIs(call.module, module)
        self.assertIs(call.optimizer, optimizer)
        self.assertEqual(list(call.tensors), ["rest[0]['x'][0]", "rest[0]['y'][0]"])

    def test_module_and_optimizer_anywhere(self) -> None:
        module = nn.Linear(3, 2)
        call = read([torch.ones(1), module], None, module, flags=True, optimizers={"sgd": sgd(module)})
        self.assertIs(call.module, module)
        self.assertIsNotNone(call.optimizer)

    def test_run_puts_other_tensors_in(self) -> None:
        module, x = nn.Linear(3, 2), torch.ones(1)
        call = read(module, None, [x, 5], x, scale=3.0, more="word")
        other = torch.zeros(7)
        self.assertEqual(len(call.tensors), 1, "one tensor, whatever its names")
        found = call.run(step, [other])
        self.assertIs(found[0], module)
        self.assertEqual(found[3:], (3.0, {"more": "word"}))
        self.assertIs(found[2][0][0], other)
        self.assertIs(found[2][1], other)

    def test_description(self) -> None:
        module, x = nn.Linear(3, 2), torch.ones(1)
        snapshot = GuardSnapshot()
        read(module, None, x, x, scale=[1, "a"]).describe(snapshot)
        values = snapshot.values
        self.assertEqual(values["argument rest[0]"], "float32[1]")
        self.assertEqual(values["argument rest[1] is"], "'rest[0]'")
        self.assertEqual((values["argument scale[0]"], values["argument scale[1]"]), ("1", "'a'"))
        self.assertIn("Linear at", values["argument module"])


class RefusedTest(unittest.TestCase):
    """Calls that cannot be traced are refused with a message of one line."""

    def check(self, words: str, *args: Any, **kwargs: Any) -> None:
        with self.assertRaisesRegex(UsageError, words) as caught:
            read(*args, **kwargs)
        self.assertNotIn("\n", str(caught.exception))

    def test_no_module(self) -> None:
        self.check("one nn.Module among its arguments, not none", torch.ones(1))

    def test_two_modules(self) -> None:
        self.check(r"not 2: module \(Linear\), rest\[0\] \(ReLU\)", nn.Linear(1, 1), None, nn.ReLU())

    def test_two_optimizers(self) -> None:
        module = nn.Linear(1, 1)
        self.check("at most one optimizer, not 2", module, sgd(module), sgd(module))

    def test_tensor_that_requires_grad(self) -> None:
        self.check(
            r"argument rest\[0\] requires grad", nn.Linear(1, 1), None, torch.ones(1, requires_grad=True)
        )

    def test_the_module_s_own_tensor(self) -> None:
        module = nn.BatchNorm1d(2)
        self.check("argument scale is the module's own", module, scale=module.weight)
        self.check("argument scale is the module's own", module, scale=module.running_mean)

    def test_tensor_of_a_subclass(self) -> None:
        class Marked(torch.Tensor):  # type: ignore[misc]  # torch is not followed
            """A tensor subclass without behaviour."""

        self.check("is a Marked", nn.Linear(1, 1), scale=torch.ones(1).as_subclass(Marked))

    def test_object(self) -> None:
        self.check(r"argument scale\['config'\] is a object", nn.Linear(1, 1), scale={"config": object()})

    def test_arguments_that_do_not_fit(self) -> None:
        with self.assertRaisesRegex(TypeError, "missing a required argument: 'module'"):
            read(scale=1)


if __name__ == "__main__":
    unittest.main()
