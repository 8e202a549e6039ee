"""Tests the keys of a configuration file: which there are, and what their values may be."""

from __future__ import annotations

import unittest
from pathlib import Path

from harness.configuration.keys import BY_NAME, KEYS, OF_THE_PROJECT, as_variable, check_names, checked, shown
from harness.errors import UsageError
from harness.runner.command_line.options import build
from harness.variables import VARIABLES

HERE = Path("/project")
# Options that are about one run, and not about a project.
OF_ONE_RUN = {
    *("names", "suites", "keywords", "expression", "last_failed", "shard", "resume", "list", "json"),
    *("repeat", "until_fail", "pdb", "pdb_rank", "config", "no_config", "profile", "show_config", "help"),
    *(
        "changed",
        "affected_by",
        "stream",
        "version",
        "print_completion",
        "color",
        "hosts",
        "placement",
        "also",
    ),
}


class KeysTest(unittest.TestCase):
    """The table of keys."""

    def test_every_option(self) -> None:
        """Each option of run_tests.py is a key, or is about one run."""
        options = {action.dest for action in build()._actions}
        keys = {key.name.replace("-", "_") for key in KEYS}
        self.assertLessEqual(options - keys, OF_ONE_RUN)
        self.assertEqual(keys & OF_ONE_RUN, set())
        ours = {key.name.replace("-", "_") for key in KEYS if not key.variable} - {
            name.replace("-", "_") for name in OF_THE_PROJECT
        }
        self.assertLessEqual(ours, options)

    def test_variables(self) -> None:
        """The variables of settings are documented ones, each of one key."""
        variables = [key.variable for key in KEYS if key.variable]
        self.assertEqual(len(variables), len(set(variables)))
        self.assertLessEqual(set(variables), {variable.name for variable in VARIABLES})


class ValueTest(unittest.TestCase):
    """Values, as they are read and shown."""

    def test_taken(self) -> None:
        """Paths are below the file's directory, and what may be several is a list."""
        for name, value, read in (
            ("timeout", 1.5, 1.5),
            ("slow", True, True),
            ("ranks", "pooled", "pooled"),
            ("jobs", "auto", "auto"),
            ("jobs", 3, 3),
            ("shuffle", True, True),
            ("include", "c10d", ["c10d"]),
            ("test-paths", ["a", "/b"], ["/project/a", "/b"]),
            ("report-dir", "out", "/project/out"),
            ("reruns", {"count": 1}, {"count": 1}),
        ):
            with self.subTest(name, value=value):
                self.assertEqual(checked(BY_NAME[name], value, HERE, "x:1"), read)

    def test_refused(self) -> None:
        """A value of another kind, or one that the setting does not take, names the place and the key."""
        for name, value, said in (
            ("timeout", "5", 'timeout = "5": write a number'),
            ("timeout", True, "timeout = true: write a number"),
            ("timeout", -1, "timeout = -1: write a number of seconds above 0"),
            ("slow", 1, "write true or false"),
            ("ranks", "many", "write one of fresh, pooled"),
            ("include", ["a", 1], "write a text or a list of texts"),
            ("shuffle", False, "write a text or a number"),
            ("jobs", [1], "write a text or a number"),
        ):
            with self.subTest(name, value=value), self.assertRaises(UsageError) as raised:
                checked(BY_NAME[name], value, HERE, "x.toml:1")
            self.assertTrue(str(raised.exception).startswith(f"x.toml:1: {name} = "), raised.exception)
            self.assertIn(said, str(raised.exception))

    def test_texts(self) -> None:
        """Values as variables and as they are shown."""
        for value, variable, text in (
            (True, "1", "true"),
            (False, "0", "false"),
            (2, "2", "2"),
            (0.1 + 0.2, "0.30000000000000004", "0.30000000000000004"),
            ("x", "x", '"x"'),
        ):
            with self.subTest(value):
                self.assertEqual((as_variable(value), shown(value)), (variable, text))
        self.assertEqual(shown({"a": [1, "b"], "c": {}}), '{ a = [1, "b"], c = {  } }')

    def test_unknown_names(self) -> None:
        """An unknown key is told with its place and the one that was probably meant."""
        for table, said in (
            ({"timout": 1}, "x:7: unknown key timout; did you mean timeout?"),
            ({"zzz": 1}, "x:7: unknown key zzz; the keys are timeout, jobs"),
        ):
            with self.subTest(table), self.assertRaises(UsageError) as raised:
                check_names(table, ("timeout", "jobs"), lambda name: "x:7")
            self.assertEqual(str(raised.exception), said)


if __name__ == "__main__":
    unittest.main()
