"""Tests which values of fixtures ranks can get, and what is said of the others."""

from __future__ import annotations

import unittest

from harness.cases.fixture_values import decoded, encoded
from harness.errors import UsageError


class FixtureValuesTest(unittest.TestCase):
    """``encoded`` and ``decoded``."""

    def test_values(self) -> None:
        """Ranks get what was given; a value that cannot be pickled is named."""
        self.assertEqual(decoded(encoded({"a": 1, "b": [2]})), {"a": 1, "b": [2]})
        self.assertRaisesRegex(
            UsageError, "'b': a function cannot be pickled", encoded, {"a": 1, "b": lambda: 0}
        )
        self.assertEqual(decoded(encoded({"a": 1, "b": lambda: 0}, partly=True)), {"a": 1})

    def test_fixtures_of_pytest(self) -> None:
        """Of pytest's own it is said what does the same in a rank; a project's own is like any other."""
        fixture = type("Fixture", (), {"__module__": "_pytest.anywhere"})()  # no class to pickle it by
        values = [
            ("capsys", r"redirect_stdout\(io.StringIO\(\)\) in the test"),
            ("caplog", "a logging.Handler that the test adds"),
            ("recwarn", r"catch_warnings\(record=True\)"),
            ("request", "a fixture that returns what the test needs of it"),
        ]
        for name, expected in values:
            with self.subTest(name=name):
                self.assertRaisesRegex(UsageError, f"pytest's '{name}'.*{expected}", encoded, {name: fixture})
                self.assertRaisesRegex(UsageError, f"value of '{name}'.*function", encoded, {name: lambda: 0})


if __name__ == "__main__":
    unittest.main()
