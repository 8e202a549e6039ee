"""Tests how filters of warnings are sent to ranks and set there."""

from __future__ import annotations

import json
import unittest
import warnings
from unittest import mock

from harness.errors import RankLeakWarning
from harness.ranks import warning_filters


class Nested:
    """The home of a category that is no module's own."""

    class Own(UserWarning):
        """A category of a test module."""


class FiltersTest(unittest.TestCase):
    """Filters that were encoded in one process and are set in another."""

    def test_round_trip(self) -> None:
        """They are set as they were given, the last one first."""
        given: list[warning_filters.Filter] = [
            ("error", "", Warning, "", 0),
            ("ignore", "a+b", RankLeakWarning, "", 0),
            ("once", "", Nested.Own, r"suites\.x\Z", 7),
        ]
        with warnings.catch_warnings():
            warnings.resetwarnings()
            for each in given:
                warnings.filterwarnings(*each)
            wanted = list(warnings.filters)
            warnings.resetwarnings()
            warning_filters.apply(json.loads(json.dumps(warning_filters.encoded(given))))
            self.assertEqual(list(warnings.filters), wanted)

    def test_category_that_is_not_there(self) -> None:
        """A filter is left out whose category this process cannot import, or that is none here."""
        texts = [
            json.dumps(["error", "", home, name, "", 0])
            for home, name in (
                ("no_such_module", "Own"),
                (__name__, "Nested.Other"),
                (__name__, "Nested"),
                ("builtins", "UserWarning"),
            )
        ]
        with mock.patch.object(warnings, "filterwarnings") as set_:
            warning_filters.apply(texts)
        self.assertEqual([call.args[2] for call in set_.call_args_list], [UserWarning])


if __name__ == "__main__":
    unittest.main()
