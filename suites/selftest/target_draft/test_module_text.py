"""Tests the plugin that is written of what was found."""

from __future__ import annotations

import unittest

from harness.target_draft.module_text import dtypes_text, is_module_name, module_text
from harness.target_draft.rounds import Plug
from harness.target_draft.tries import Finding, Try
from harness.targets import COMPLEX, FLOATS, INTEGERS, Capability, Target

RIGHT = Finding("right")
NO = Finding("refused", "RuntimeError: no " + "such thing " * 20)
FOUND = {
    Try("broadcast", "float32"): RIGHT,
    Try("broadcast", "int8"): NO,
    Try("send", "int8"): RIGHT,
    Try("all_reduce", "float32", "sum"): RIGHT,
    Try("all_reduce", "int8", "sum"): RIGHT,
    Try("all_reduce", "float32", "avg"): RIGHT,
    Try("all_reduce", "int8", "avg"): RIGHT,
    Try("reduce", "float32", "sum"): Finding("crashed", "rank 0: signal 11"),
    Try(capability="TAGS"): RIGHT,
    Try(capability="DDP"): Finding("hung"),
}


class ModuleTextTest(unittest.TestCase):
    """The text of a module, by what was found."""

    def test_target(self) -> None:
        """The text is a module whose target declares what was found right, and nothing else."""
        text = module_text(FOUND, Plug("mine", "xpu", "json"), "2.13.0")
        scope: dict[str, object] = {}
        exec(compile(text, "draft", "exec"), scope)
        target = scope["TARGET"]
        assert isinstance(target, Target)
        self.assertEqual((target.backend, target.device_type), ("mine", "xpu"))
        self.assertEqual(set(target.operations), {"broadcast", "send", "recv", "all_reduce"})
        self.assertEqual(target.dtypes("broadcast"), {"float32"})
        self.assertEqual(target.dtypes("recv"), {"int8"})
        self.assertEqual(target.dtypes("all_reduce", "avg"), {"float32", "int8"})
        self.assertEqual(target.dtypes("all_reduce", "max"), frozenset())
        self.assertEqual(target.capabilities, {Capability.TAGS})
        self.assertIn("json", scope)

    def test_comments(self) -> None:
        """What does not work is told, with what was said, in lines that are not too long."""
        text = module_text(FOUND, Plug("mine", "cpu"), "2.13.0")
        for said in (
            "# broadcast of int8: refused: RuntimeError",
            "# DDP: hung",
            "# reduce SUM of float32: crashed",
        ):
            self.assertIn(said, text)
        self.assertLessEqual(max(map(len, text.splitlines())), 110)

    def test_nothing_works(self) -> None:
        """A target without anything is a module too."""
        scope: dict[str, object] = {}
        exec(module_text({}, Plug("mine", "cpu"), "2.13.0"), scope)
        target = scope["TARGET"]
        assert isinstance(target, Target)
        self.assertEqual((target.operations, target.capabilities), ({}, frozenset()))

    def test_dtypes(self) -> None:
        """A set is written by the names of its parts."""
        for dtypes, text in (
            (FLOATS | INTEGERS, "FLOATS | INTEGERS"),
            (COMPLEX | {"bool"}, 'COMPLEX | {"bool"}'),
            (frozenset({"int8", "bool"}), '{"bool", "int8"}'),
            (frozenset(), "frozenset()"),
        ):
            with self.subTest(text):
                self.assertEqual(dtypes_text(dtypes), text)

    def test_module_names(self) -> None:
        """What can stand in an import statement, and what cannot."""
        for name, possible in (
            ("a.b_1", True),
            ("a-b", False),
            ("", False),
            ("a.class", False),
            ("a.py", True),
        ):
            with self.subTest(name):
                self.assertIs(is_module_name(name), possible)


if __name__ == "__main__":
    unittest.main()
