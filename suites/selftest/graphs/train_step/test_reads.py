"""Tests that no graph is used after a change of a value that the step's code reads beside its arguments."""

from __future__ import annotations

import copy
import inspect
import types
import unittest
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from harness import UsageError
from harness.graphs.train_step import compile
from harness.graphs.train_step.call_arguments import read_call
from harness.graphs.train_step.reads import describe_reads
from harness.graphs.train_step.snapshots import GuardSnapshot
from suites.selftest.graphs.train_step.step_test_case import StepTestCase, sum_step

factor = 1.0


def scaled(x: Tensor) -> Tensor:
    """Scales the loss by a global variable."""
    return x * factor


class Loss:
    """A loss that reads attributes of the object and of its class."""

    shift: ClassVar[float] = 0.0

    def __init__(self) -> None:
        self.weight = 1.0

    def __call__(self, x: Tensor) -> Tensor:
        return self.moved(x)

    def moved(self, x: Tensor) -> Tensor:
        """A method that reads a property."""
        return x * self.doubled + self.shift

    @property
    def doubled(self) -> float:
        """A property that reads an attribute."""
        return 2 * self.weight


@dataclass(slots=True)
class Settings:
    """An object with slots instead of a ``__dict__``."""

    scale: float = 1.0


class Scaled(nn.Module):  # type: ignore[misc]  # torch is untyped to mypy here
    """A module whose forward reads a global, an object's attribute and, in another method, its class."""

    power: ClassVar[float] = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.settings = Settings()

    def forward(self, x: Tensor) -> Tensor:
        """Applies the layer and all values that are read."""
        return self.raised(self.linear(x)) * factor * self.settings.scale

    def raised(self, x: Tensor) -> Tensor:
        """Raises to the power that the class defines."""
        return x.abs() ** self.power


class StaleTest(StepTestCase):
    """After a change of a value that a step reads, it is still equal to eager, and has two graphs."""

    def check(
        self, step: Callable[..., Any], change: Callable[[Any], object], *more: Any, module: Any = None
    ) -> None:
        self.same_as_eager(
            nn.Linear(3, 2) if module is None else module,
            step,
            [[torch.randn(4, 3), *more] for _ in range(3)],
            between=lambda module, optimizer: change(module),
            graphs=2,
        )

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(globals().update, factor=1.0)

    def test_attribute_of_an_object(self) -> None:
        kinds: list[Any] = [Settings(), types.SimpleNamespace(), types.ModuleType("settings")]
        for settings in kinds:
            settings.scale = 1.0

            def step(module: Any, optimizer: Any, x: Tensor, settings: Any = settings) -> Any:
                return sum_step(module, optimizer, x * settings.scale)

            with self.subTest(type(settings).__name__):
                self.check(step, lambda module, settings=settings: setattr(settings, "scale", 3.0))  # type: ignore[misc]  # mypy cannot infer a lambda with a default

    def test_object_in_a_container(self) -> None:
        options = {"all": [Settings()]}

        def step(module: Any, optimizer: Any, x: Tensor) -> Any:
            return sum_step(module, optimizer, x * options["all"][0].scale)

        self.check(step, lambda module: setattr(options["all"][0], "scale", 3.0))

    def test_attribute_of_a_captured_module(self) -> None:
        criterion = nn.MSELoss()

        def step(module: Any, optimizer: Any, x: Tensor) -> Any:
            loss = criterion(module(x), torch.zeros(4, 2))
            loss.backward()
            optimizer.step()
            return loss

        self.check(step, lambda module: setattr(criterion, "reduction", "sum"))

    def test_global_of_a_function(self) -> None:
        def called(module: Any, optimizer: Any, x: Tensor) -> Any:
            return sum_step(module, optimizer, scaled(x))

        def inside(module: Any, optimizer: Any, x: Tensor) -> Any:
            return sum_step(module, optimizer, (lambda y: y * factor)(x))

        for step in (called, inside):
            with self.subTest(step.__name__):
                self.check(step, lambda module: globals().update(factor=3.0))
                globals().update(factor=1.0)

    def test_default_and_attribute_of_a_function(self) -> None:
        def step(module: Any, optimizer: Any, x: Tensor, *, scale: Any = [1.0]) -> Any:  # noqa: B006
            return sum_step(module, optimizer, x * scale[0] * vars(step)["power"])

        step.power = 1.0  # type: ignore[attr-defined]  # what is tested
        defaults: Any = step.__kwdefaults__
        self.check(step, lambda module: defaults["scale"].__setitem__(0, 3.0))
        self.check(step, lambda module: setattr(step, "power", 2.0))

    def test_callable_objects_and_methods(self) -> None:
        for attribute in ("weight", "shift"):
            loss = Loss()
            for call in (loss, loss.moved, partial(loss.moved)):

                def step(module: Any, optimizer: Any, x: Tensor, call: Any = call) -> Any:
                    return sum_step(module, optimizer, call(x))

                with self.subTest(attribute, call=type(call).__name__):
                    setattr(loss, attribute, 1.0)
                    self.check(step, partial(self.put, loss, attribute))

    @staticmethod
    def put(loss: Loss, attribute: str, module: nn.Module) -> None:
        """Makes the loss compute something else."""
        setattr(loss, attribute, 3.0)

    def test_argument(self) -> None:
        def step(module: Any, optimizer: Any, x: Tensor, loss: Any) -> Any:
            return sum_step(module, optimizer, loss(x))

        self.check(step, lambda module: globals().update(factor=3.0), scaled)

    def test_forward(self) -> None:
        self.check(sum_step, lambda module: globals().update(factor=3.0), module=Scaled())
        globals().update(factor=1.0)
        self.check(sum_step, lambda module: setattr(module.settings, "scale", 3.0), module=Scaled())
        self.addCleanup(setattr, Scaled, "power", 1.0)
        self.check(sum_step, lambda module: setattr(Scaled, "power", 2.0), module=Scaled())

    def test_what_a_step_counts(self) -> None:
        """A step that counts its calls is refused, because it would count in the trace only."""
        settings = Settings()

        def step(module: Any, optimizer: Any, x: Tensor) -> Any:
            settings.scale += 1
            return sum_step(module, optimizer, x)

        module, optimizer, x = self.linear()
        words = r"changes what is no tensor, .*captured settings.scale: 1.0 -> 2.0"
        with self.assertRaisesRegex(UsageError, words):
            compile()(step)(module, optimizer, x)


class WalkTest(unittest.TestCase):
    """The places of the values that the walk finds."""

    def read(self, function: Callable[..., Any]) -> dict[str, str]:
        def step(module: Any) -> Any:
            return function

        snapshot = GuardSnapshot()
        describe_reads(function, read_call(inspect.signature(step), [nn.Identity()], {}), snapshot)
        return snapshot.values

    def test_only_attributes_that_code_names(self) -> None:
        state = types.SimpleNamespace(scale=1.0, count=0)
        self.assertEqual(
            self.read(lambda x: x * state.scale),
            {"captured state": "SimpleNamespace", "captured state.scale": "1.0"},
        )

    def test_objects_that_hold_each_other(self) -> None:
        state = types.SimpleNamespace(scale=1.0)
        state.own = state
        found = self.read(lambda x: x * state.own.own.scale)
        self.assertEqual(found["captured state.scale"], "1.0")
        self.assertEqual(len(found), 3)

    def test_libraries_are_not_entered(self) -> None:
        for function in (
            lambda x: torch.nn.functional.relu(x),
            lambda x: copy.deepcopy(x),
            lambda x: unittest.TestCase.assertEqual(x, x, x),
        ):
            with self.subTest(function):
                self.assertFalse([name for name in self.read(function) if "." in name])

    def test_variable_that_is_not_assigned_yet(self) -> None:
        def step() -> Any:
            return later

        self.assertEqual(self.read(step), {})
        later = 1
        self.assertEqual(self.read(step), {"captured later": "1"})


if __name__ == "__main__":
    unittest.main()
