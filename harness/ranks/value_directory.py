"""``ValueDirectory``: where a test's ranks write the values of their calls, and what is wrong there."""

from __future__ import annotations

from harness.communication.analysis.checks import Finding
from harness.communication.tensor_values.values import read_directory
from harness.system.scratch import remove, scratch


class ValueDirectory:
    """A directory of one test, made where its communication is checked by ``level`` "values"; else no more
    than the path "".
    """

    def __init__(self, level: str | None) -> None:
        self.path = scratch().new_directory("values") if level == "values" else ""

    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with the values, once the ranks have ended or reported; the directory is removed."""
        if not self.path:
            return ()
        from harness.communication.tensor_values.value_check import value_findings  # imports numpy

        values = read_directory(self.path)
        self.close()
        return value_findings(values)

    def close(self) -> None:
        """Removes the directory, if it is there."""
        path, self.path = self.path, ""
        if path:
            remove(path)
