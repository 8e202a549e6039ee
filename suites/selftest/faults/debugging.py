"""A case for the self-tests of debugging a rank at the terminal."""

from __future__ import annotations

from harness import MultiProcessTestCase


def users_debugger() -> None:
    """What PYTHONBREAKPOINT names: a debugger that needs no terminal."""
    raise AssertionError("the user's debugger was called")


def _fail(number: int) -> None:
    __tracebackhide__ = True  # as in ``pytest.fail``
    raise RuntimeError(f"of rank {number}")


class Debugged(MultiProcessTestCase):
    """Two ranks, one of which gets the terminal."""

    world_size = 2

    def test_breakpoint(self) -> None:
        number = self.rank
        breakpoint()
        self.assertEqual(number, self.rank)

    def test_hides_a_frame(self) -> None:
        number = self.rank
        _fail(number)

    def test_fails(self) -> None:
        number = self.rank
        self.assertEqual(number, 42)
