"""``Known``: a failure that is known, as a line of a table: of which tests, with which error, and why.

Strict on both sides. A test that no longer fails is reported, and so is one that fails in another way.
"""

from __future__ import annotations

import functools
import re
import unittest
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from harness.graphs.verifier import add_note
from harness.releases import torch_between

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


@dataclass(frozen=True, slots=True)
class Known:
    """A failure that is known.

    ``names``: what fails, separated by blanks. ``error``: the exception's class by its name, for some are
    internal to torch; ``message``: a pattern that is found in its text. ``modes``: where it fails, for tables
    that tell modes apart; empty is everywhere. ``since`` and ``before``: the first release of torch in which
    it fails, and the first in which it does not any more.
    """

    names: str
    error: str
    message: str
    why: str
    modes: tuple[str, ...] = ()
    since: str | None = None
    before: str | None = None

    def concerns(self, name: str, mode: str = "") -> bool:
        """Whether it is of ``name`` in this mode."""
        return self.is_here() and name in self.names.split() and (not self.modes or mode in self.modes)

    def is_here(self) -> bool:
        """Whether it is of the release of torch that runs."""
        return torch_between(self.since, self.before)

    def is_this(self, error: BaseException) -> bool:
        """Whether ``error`` is this failure."""
        return type(error).__name__ == self.error and re.search(self.message, str(error)) is not None

    def __str__(self) -> str:
        return f"{self.error} with {self.message!r}: {self.why}"


def all_names(table: Iterable[Known]) -> set[str]:
    """Everything that a table names for the release of torch that runs."""
    return {name for known in table if known.is_here() for name in known.names.split()}


def expect(known: Known) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator of a test that fails as ``known`` says."""

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def expecting(self: unittest.TestCase) -> None:
            try:
                test(self)
            except unittest.SkipTest:
                raise
            except Exception as error:
                if known.is_this(error):
                    add_note(error, f"known: {known.why}")
                    raise
                fail_later(self, error)
            else:
                fail_later(self, AssertionError(f"it passes: take it off the table ({known})"))

        expecting.known = known  # type: ignore[attr-defined]  # for is_bare
        return unittest.expectedFailure(expecting)

    return decorate


def is_bare(test: Callable[..., Any]) -> bool:
    """Whether ``test`` is expected to fail, and any failure would do."""
    return getattr(test, "__unittest_expecting_failure__", False) and not hasattr(test, "known")


def fail_later(case: unittest.TestCase, error: Exception) -> None:
    """Have ``error`` raised by a cleanup: what the method itself raises would be expected, whatever it is."""
    case.addCleanup(_raise, error)


def _raise(error: Exception) -> NoReturn:
    raise error
