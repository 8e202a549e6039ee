"""Tests which frames stay in the tracebacks of an exception, as a table of who called whom."""

from __future__ import annotations

import dataclasses
import sys
import unittest
from collections.abc import Callable
from typing import Any

from harness.tracebacks import has_users_frames, show_users_frames

# The globals of a module of each kind, by the letter that begins its functions' names.
MODULES: dict[str, dict[str, Any]] = {
    "u": {"__name__": "test_of_a_user"},
    "t": {"__name__": "torch.distributed"},
    "x": {"__name__": "torch.testing"},  # its functions hide
    "h": {"__name__": "harness.requirements.attach"},
    "m": {"__name__": "unittest.case", "__unittest": True},
}


@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    """An exception whose attributes cannot be set."""

    text: str


def _first(name: str) -> str:
    return "__tracebackhide__ = True; " if name.startswith("x") else ""


def calling(names: str, end: Callable[[], object]) -> Callable[[], object]:
    """Returns a function that calls one with the next name, and so on; the last one calls ``end``."""
    for name in reversed(names.split()):
        space: dict[str, Any] = {**MODULES[name[0]], "following": end}
        exec(f"def {name}():\n    {_first(name)}following()", space)
        end = space[name]
    return end


def raised(names: str, error: BaseException, *, cause: BaseException | None = None) -> BaseException:
    """Returns the exception after functions of these names have called each other and the last raised it."""
    *callers, last = names.split()
    space: dict[str, Any] = {**MODULES[last[0]], "error": error, "cause": cause}
    exec(f"def {last}():\n    {_first(last)}raise error from cause", space)
    try:
        calling(" ".join(callers), space[last])()
    except BaseException as caught:  # noqa: BLE001 - it must catch every kind
        assert caught.__traceback__ is not None
        return caught.with_traceback(caught.__traceback__.tb_next)  # without this function's own frame
    raise AssertionError("nothing was raised")


def shown(error: BaseException) -> str:
    """Returns the names of the functions in the exception's traceback."""
    names, trace = [], error.__traceback__
    while trace is not None:
        names.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    return " ".join(names)


class FramesTest(unittest.TestCase):
    """``show_users_frames``, with functions of a user (u), torch (t), the harness (h) and unittest (m).

    Functions ``x`` ask to be left out, as pytest has it.
    """

    def check(self, error: BaseException, expected: str) -> None:
        """Checks the frames of one exception."""
        show_users_frames(error)
        self.assertEqual(shown(error), expected)

    def test_table(self) -> None:
        """What an error and a failed assertion show, by the frames that they passed."""
        table = (
            ("m1 m2 h1 u1 u2", "u1 u2", "u1 u2"),
            ("m1 u1 h1 u2", "u1 u2", "u1 u2"),
            ("u1 h1 h2 u2 m1 u3", "u1 u2 u3", "u1 u2 u3"),
            ("m1 u1 m2 h1", "u1 m2 h1", "u1"),
            ("u1 h1 u2 h2 h3", "u1 u2 h2 h3", "u1 u2"),
            ("m1 u1 h1 t1 t2", "u1 t1 t2", "u1 t1 t2"),
            ("m1 h1 h2", "m1 h1 h2", "m1 h1 h2"),
            ("u1", "u1", "u1"),
            ("m1 u1 x1 t1 x2", "u1 t1", "u1 t1"),
            ("u1 x1", "u1", "u1"),
            ("x1 x2", "x1 x2", "x1 x2"),
        )
        for names, error, assertion in table:
            with self.subTest(names):
                self.check(raised(names, ValueError()), error)
                self.check(raised(names, AssertionError()), assertion)

    def test_has_frames(self) -> None:
        """A frame of the user or of a library that he uses counts, anywhere; others do not."""
        for names, expected in (("m1 h1 u1 h2", True), ("m1 t1 h1", True), ("m1 h1 h2", False)):
            with self.subTest(names):
                error = raised(names, ValueError())
                self.assertEqual(has_users_frames(error), expected)
        self.assertFalse(has_users_frames(ValueError()))

    def test_own_failure(self) -> None:
        """The case's own ``failureException`` decides what an assertion is."""
        error = raised("u1 h1", ValueError())
        show_users_frames(error, ValueError)
        self.assertEqual(shown(error), "u1")

    def test_never_raised(self) -> None:
        """An exception without a traceback has none afterwards."""
        self.check(ValueError(), "")

    def test_chain(self) -> None:
        """Causes and contexts show the user's frames as well, each by its own kind."""
        first = raised("h1 u1 m1", AssertionError())
        second = raised("h1 u2 h2", KeyError(), cause=first)
        third = raised("m1 u3 h1 u4", ValueError())
        third.__context__ = second
        self.check(third, "u3 u4")
        self.assertEqual((shown(second), shown(first)), ("u2 h2", "u1"))

    def test_cycle(self) -> None:
        """An exception that is its own cause is no trouble, nor is one that is frozen."""
        first, second = raised("h1 u1", Frozen("hen")), raised("h1 u2", Frozen("egg"))
        BaseException.__setattr__(first, "__cause__", second)
        BaseException.__setattr__(second, "__cause__", first)
        self.check(first, "u1")
        self.assertEqual(shown(second), "u2")

    @unittest.skipIf(sys.version_info < (3, 11), "ExceptionGroup came with Python 3.11")
    def test_group(self) -> None:
        """The members of a group, and of a group in it, show the user's frames."""
        group = sys.modules["builtins"].__dict__["ExceptionGroup"]  # Python 3.10 has no such name
        member, inner = raised("h1 u1 h2", AssertionError()), raised("m1 u2 h1", KeyError())
        self.check(raised("h1 u3", group("outer", [member, group("inner", [inner])])), "u3")
        self.assertEqual((shown(member), shown(inner)), ("u1", "u2 h1"))


if __name__ == "__main__":
    unittest.main()
