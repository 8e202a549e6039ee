"""What the compiler refuses, and with which words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.graphs import torch_at_least
from suites.aot.base import AotTestCase

WRONG_GUESS = (
    "During the backward, we encountered a tensor subclass where we guessed its\nmetadata incorrectly.\n"
)


def plain_guess(got: type, shape: str) -> tuple[str, ...]:
    """How a gradient of type ``got`` that was guessed to be plain is refused: the beginning, and words."""
    if torch_at_least("2.12"):
        words = ("Expected: None (type <class 'torch.Tensor'>),", f"got: None (type {got}), shape: {shape}.")
    else:
        words = ("expected type: <class 'torch.Tensor'>", f"runtime type: {got}", f"shape: {shape}")
    return WRONG_GUESS, *words


def subclass_guess(expected: type, *, tangent: int, of: str) -> tuple[str, ...]:
    """How a plain gradient that was guessed to be of type ``expected`` is refused, the ``tangent``-th, ``of``
    what torch calls __``of``: the beginning, and words."""
    if torch_at_least("2.12"):
        words = (
            f"Expected a {expected.__name__} tangent but got a plain Tensor (tangent index: {tangent}).",
            f"The problematic output is: __output_tangent(__{of})",
        )
    else:
        words = (f"expected type: {expected}", "runtime type: <class 'torch.Tensor'>")
    return WRONG_GUESS, *words


class RefusalTestCase(AotTestCase):
    """A test of what is refused."""

    @contextmanager
    def refused(self, error: type[Exception], beginning: str, *words: str) -> Iterator[None]:
        """A region that raises ``error``, no subclass of it, with that beginning and all ``words`` in it."""
        with self.assertRaises(error) as caught:
            yield
        self.assertIs(type(caught.exception), error)
        message = str(caught.exception).strip()
        self.assertEqual(message[: len(beginning)], beginning)
        for each in words:
            self.assertIn(each, message)
