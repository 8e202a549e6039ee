"""Tests that units cross a process as JSON and come back as they were."""

from __future__ import annotations

import json
import unittest

from hypothesis import strategies as st

from harness.errors import ProtocolError
from harness.runner.scheduling.unit import Demand, Unit, duplicates, from_json, of_id, to_json
from suites.selftest.properties import given
from suites.selftest.runner.strategies import demands, seconds

whole_units = st.builds(
    Unit,
    id=st.text(),
    module=st.text(),
    case=st.text(),
    method=st.text(),
    demand=demands,
    expected_s=st.none() | seconds,
    slow=st.booleans(),
    timeout_s=st.none() | seconds,
    supervised=st.booleans(),
    fixtures=st.lists(st.text(), max_size=3).map(tuple),
    file=st.text(),
    line=st.integers(0, 10**6),
    imported=st.booleans(),
)


class UnitTest(unittest.TestCase):
    @given(whole_units)
    def test_json_round_trip(self, unit: Unit) -> None:
        self.assertEqual(from_json(json.loads(json.dumps(to_json(unit)))), unit)

    def test_what_is_no_unit(self) -> None:
        good = to_json(of_id("m.C.test", "m"))
        less = {key: value for key, value in good.items() if key != "id"}
        for bad in ({}, less, {**good, "colour": 1}, {**good, "demand": {"ranks": 0}}, {**good, "demand": 3}):
            with self.subTest(bad=bad), self.assertRaises(ProtocolError):
                from_json(bad)

    def test_parts_of_an_id(self) -> None:
        table = (
            ("a.test_b.Case.test_c", "a.test_b", "Case", "test_c", "a.test_b.Case"),
            ("a.test_b.Outer.Inner.test_c", "a.test_b", "Outer.Inner", "test_c", "a.test_b.Outer.Inner"),
            ("other.Case.test_c", "a.test_b", "other.Case", "test_c", "other.Case"),
            ("a.test_b.test_c", "a.test_b", "", "test_c", "a.test_b"),
            ("a.test_b.test_c[0.5-x.y]", "a.test_b", "", "test_c[0.5-x.y]", "a.test_b"),
            ("a.test_b.Case.test_c[[a.b]", "a.test_b", "Case", "test_c[[a.b]", "a.test_b.Case"),
        )
        for test_id, module, case, method, class_id in table:
            with self.subTest(test_id):
                unit = of_id(test_id, module, line=3)
                self.assertEqual((unit.case, unit.method, unit.class_id), (case, method, class_id))
                self.assertEqual((unit.id, unit.module, unit.line), (test_id, module, 3))

    def test_a_demand_for_less_than_nothing(self) -> None:
        good = to_json(of_id("m.C.test", "m"))["demand"]
        for name, amount in (("ranks", 0), ("cpu_slots", 0), ("accelerators", -1), ("memory_mb", -1)):
            with self.subTest(name), self.assertRaisesRegex(ValueError, name):
                Demand(**{**good, name: amount})

    def test_duplicates(self) -> None:
        self.assertEqual(duplicates(["b", "a", "b", "c", "a", "b"]), ("a", "b"))
        self.assertEqual(duplicates(["b", "a"]), ())


if __name__ == "__main__":
    unittest.main()
