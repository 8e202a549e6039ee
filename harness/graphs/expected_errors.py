"""``ExpectedError``: the error that a function is to raise, in eager and compiled alike."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.errors import UsageError

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """An error of class ``kind`` whose text ``pattern`` is found in, unless that is None."""

    kind: type[Exception]
    pattern: str | None = None

    def check(self, name: str, eager: Callable[[], Any], compiled: Callable[[], Any]) -> None:
        """AssertionError unless both raise it, the second of the first's type or a type derived from that.

        What else they raise comes through, and a UsageError, unless it is one that is to be raised.
        """
        first = self._raised(name, "in eager", eager)
        second = self._raised(name, "compiled", compiled)
        if not isinstance(second, type(first)):
            raise AssertionError(
                f"{name} raised another error compiled: {_said(second)}; in eager {_said(first)}"
            ) from second

    def _raised(self, name: str, where: str, run: Callable[[], Any]) -> Exception:
        try:
            run()
        except self.kind as error:
            if isinstance(error, UsageError) and not issubclass(self.kind, UsageError):
                raise
            if self.pattern is not None and re.search(self.pattern, str(error)) is None:
                raise AssertionError(
                    f"{name} raised {where} an error that does not match {self.pattern!r}: {_said(error)}"
                ) from error
            return error
        raise AssertionError(f"{name} did not raise {self.kind.__name__} {where}")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
