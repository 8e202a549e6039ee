"""``ExpectedError``: the error that ``verify_aot(raises=...)`` expects in eager and compiled alike."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.errors import UsageError

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """An error of class ``kind`` whose text contains a match of ``pattern``; None accepts any text."""

    kind: type[Exception]
    pattern: str | None = None

    def check(self, name: str, eager: Callable[[], Any], compiled: Callable[[], Any]) -> None:
        """AssertionError unless both callables raise the error, ``compiled`` with eager's type or a subclass.

        Errors that are not of class ``kind`` are raised unchanged. So is a UsageError, unless ``kind`` is
        one.
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
