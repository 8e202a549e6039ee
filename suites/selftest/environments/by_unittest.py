"""Runs a test module by unittest and writes each test's verdict, as JSON, to a descriptor.

A program of its own: the environments of these tests may have no stream, file or directory to report to.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
import unittest

# Of the text of each test; the pipe that takes all of them must not fill up.
MOST_CHARACTERS = 8000


class Verdicts(unittest.TextTestResult):
    """Keeps the status and the text of each test, by the name of its class and method."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]  # unittest passes its own
        self.found: dict[str, tuple[str, str]] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        """Counts a test as passed unless something else is said of it."""
        super().startTest(test)
        self._say(test, "passed", "")

    def addFailure(self, test: unittest.TestCase, err: object) -> None:
        """Keeps a failure."""
        super().addFailure(test, err)  # type: ignore[arg-type]  # unittest passes its own
        self._say(test, "failed", self.failures[-1][1])

    def addError(self, test: unittest.TestCase, err: object) -> None:
        """Keeps an error."""
        super().addError(test, err)  # type: ignore[arg-type]  # unittest passes its own
        self._say(test, "error", self.errors[-1][1])

    def _say(self, test: unittest.TestCase, status: str, text: str) -> None:
        name = ".".join(test.id().rsplit(".", 2)[-2:])
        self.found[name] = (status, text[-MOST_CHARACTERS:])


def main() -> int:
    """Runs the module that the second argument names and writes to the descriptor of the first."""
    fd, name = int(sys.argv[1]), sys.argv[2]
    suite = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(name))
    result = unittest.TextTestRunner(stream=io.StringIO(), resultclass=Verdicts).run(suite)
    assert isinstance(result, Verdicts)
    os.write(fd, json.dumps(result.found).encode())
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    raise SystemExit(main())
