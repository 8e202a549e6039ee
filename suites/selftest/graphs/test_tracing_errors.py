"""Errors that torch's tracers really raise belong to the expected groups."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from harness import TestCase
from harness.graphs.tracing_errors import DECISIONS, UNBACKED, is_of_captured_tensor


def error_of(function: Callable[..., Any], mode: str = "fake") -> BaseException:
    """The error of ``function`` on four ones, traced by ``make_fx`` in ``mode``, or run on fake tensors."""
    try:
        if mode == "run":
            with FakeTensorMode() as fake:
                function(fake.from_tensor(torch.ones(4)))
        else:
            make_fx(function, tracing_mode=mode)(torch.ones(4))
    except Exception as error:  # noqa: BLE001  (which class it has is what the tests ask)
        return error
    raise AssertionError("nothing was raised")


def branches(x: torch.Tensor) -> torch.Tensor:
    """A function that branches on a value."""
    return x * 2 if x.sum() > 3 else x


class GroupsTest(TestCase):
    """The error types ``DECISIONS`` and ``UNBACKED``."""

    def test_decisions(self) -> None:
        """Branching on a value, and asking for it as a number, are decisions."""
        for function, mode in ((branches, "fake"), (branches, "symbolic"), (lambda x: x.sum().item(), "run")):
            with self.subTest(function=function, mode=mode):
                self.assertIsInstance(error_of(function, mode), DECISIONS)

    def test_sizes(self) -> None:
        """A size that depends on data is unbacked, but not a decision."""
        error = error_of(torch.nonzero, "run")
        self.assertIsInstance(error, UNBACKED)
        self.assertNotIsInstance(error, DECISIONS)

    def test_other_errors(self) -> None:
        """A mistake in the function is in neither group."""
        self.assertNotIsInstance(error_of(lambda x: x + torch.ones(3)), UNBACKED)


class CapturedTensorTest(TestCase):
    """The function ``is_of_captured_tensor``, on errors of torch."""

    def test_captured(self) -> None:
        """Torch's error about a real tensor in a fake trace is recognised."""
        scale = torch.ones(4)
        with FakeTensorMode() as mode:
            fake = mode.from_tensor(torch.ones(4))
            with self.assertRaises(AssertionError) as caught:
                torch.mul(fake, scale)
        self.assertTrue(is_of_captured_tensor(caught.exception))

    def test_other_errors(self) -> None:
        """Other assertion errors are not recognised, nor other errors with the same text."""
        text = "Please convert all Tensors to FakeTensors first"
        for error, expected in (
            (AssertionError(f"{text}, found one"), True),
            (AssertionError("values differ"), False),
            (RuntimeError(text), False),
        ):
            with self.subTest(error=error):
                self.assertEqual(is_of_captured_tensor(error), expected)


if __name__ == "__main__":
    unittest.main()
