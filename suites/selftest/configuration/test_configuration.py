"""Tests what a file and a profile say together, and that whatever is wrong in it is told with its place."""

from __future__ import annotations

from harness.configuration.configuration import Configuration, Given, parse
from harness.configuration.override import Reruns
from harness.errors import UsageError
from harness.settings import EnvVar
from suites.selftest.configuration.files import FileCase

WHOLE = """\
test-paths = "tests"
timeout = 5
strict = true
jobs = 2
reruns = 1

[environment]
A = "file"
B = "file"

[[overrides]]
tests = "x"
slots = 1

[profiles.ci]
timeout = 7.5
reruns = { count = 3, delay = 1 }
[profiles.ci.environment]
A = "ci"
[[profiles.ci.overrides]]
tests = "y"
slots = 2

[groups.ports]
limit = 1
"""


class WholeTest(FileCase):
    """A file with everything."""

    def test_file(self) -> None:
        """Without a profile the file alone counts."""
        found = self.parsed(WHOLE)
        self.assertEqual(found.values["timeout"], Given(5, "torch-harness.toml:2"))
        self.assertEqual(found.test_paths, (str(self.directory / "tests"),))
        self.assertEqual(found.variables, {EnvVar.TIMEOUT: "5", EnvVar.STRICT: "1", "A": "file", "B": "file"})
        self.assertEqual(set(found.options), {"jobs", "reruns"})
        self.assertEqual([each.tests for each in found.overrides], [("x",)])
        self.assertEqual(found.groups, {"ports": Given(1, "torch-harness.toml:24")})

    def test_profile(self) -> None:
        """A profile goes before the file, key by key, variable by variable, and with its overrides first."""
        found = self.parsed(WHOLE, "ci")
        self.assertEqual(found.values["timeout"], Given(7.5, "profile ci, torch-harness.toml:16"))
        self.assertEqual(found.values["reruns"].value, Reruns(3, 1.0))
        self.assertEqual(found.values["jobs"].value, 2)
        self.assertEqual({n: g.value for n, g in found.environment.items()}, {"A": "ci", "B": "file"})
        self.assertEqual([each.tests for each in found.overrides], [("y",), ("x",)])

    def test_nothing(self) -> None:
        """Without a file there is nothing, and no profile."""
        self.assertEqual(parse(None), Configuration())
        with self.assertRaisesRegex(UsageError, "profile ci: there is no configuration file"):
            parse(None, "ci")


class RefusalTest(FileCase):
    """What is wrong in a file."""

    def test_table(self) -> None:
        """One line with file and line; in profiles that are not chosen too."""
        for text, said in (
            ("timout = 1", "torch-harness.toml:1: unknown key timout; did you mean timeout?"),
            ("[override]\n", "unknown key override; did you mean overrides?"),
            ("[profiles.ci]\njbs = 2", "torch-harness.toml:2: unknown key jbs; did you mean jobs?"),
            ("[profiles.ci.profiles]\n", "torch-harness.toml:1: unknown key profiles"),
            ("profiles = 1", "write [profiles.NAME]"),
            ("[overrides]\ntests = 'x'", "write each override as [[overrides]]"),
            ("[groups.a]\n", "a group has a limit"),
            ("[groups.a]\nlimit = 0", "a group has a limit"),
            ("[groups.a]\nlimt = 1", "torch-harness.toml:2: unknown key limt; did you mean limit?"),
            ("[environment]\nHARNESS_SEED = '1'", "torch-harness.toml:1: HARNESS_SEED is a setting"),
            ("reruns = { cont = 1 }", "torch-harness.toml:1: unknown key cont; did you mean count?"),
            ("seed = -1", "torch-harness.toml:1: seed = -1: write a whole number"),
        ):
            with self.subTest(text), self.assertRaises(UsageError) as raised:
                self.parsed(text)
            self.assertIn(said, str(raised.exception))
            self.assertNotIn("\n", str(raised.exception))

    def test_unknown_profile(self) -> None:
        """An unknown profile is told with the one that was meant, or with those that there are."""
        for text, name, said in (
            (WHOLE, "cii", "no profile cii; did you mean ci?"),
            (WHOLE, "zzz", "no profile zzz; it has ci"),
            ("jobs = 1", "ci", "no profile ci; it has no profiles"),
        ):
            with self.subTest(name), self.assertRaisesRegex(UsageError, said.replace("?", r"\?")):
                self.parsed(text, name)


if __name__ == "__main__":
    import unittest

    unittest.main()
