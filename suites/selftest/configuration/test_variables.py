"""Tests which variables HARNESS_... are refused, and how a file becomes a part of the environment."""

from __future__ import annotations

import os
from unittest import mock

from harness.configuration import variables
from harness.errors import UsageError
from harness.settings import EnvVar
from harness.variables import VARIABLES
from suites.selftest.configuration.files import FileCase

BUILD_SERVICE = {"HARNESS_ACCOUNT_ID": "x", "HARNESS_STAGE_NAME": "y"}


class CheckTest(FileCase):
    """``check``, the names of variables."""

    def test_taken(self) -> None:
        """All that are documented, what the runner sets, and those of others where they are named."""
        ours = {variable.name: "" for variable in VARIABLES}
        for environ, others in (
            (
                {
                    **ours,
                    **dict.fromkeys(
                        (EnvVar.WORKER, EnvVar.TEST_TIMEOUT, EnvVar.EXECUTED, EnvVar.RUNNING_TEST), "1"
                    ),
                    "HARNES": "x",
                },
                (),
            ),
            ({"HARNESS_JENKINS_7": ""}, ("HARNESS_JENKINS_*",)),
            (BUILD_SERVICE, ()),
        ):
            with self.subTest(environ):
                variables.check(environ, others)

    def test_refused(self) -> None:
        """A typing error is told with what was meant, on the machines of the build service too."""
        for environ, said in (
            (
                {"HARNESS_TIMOUT": "5"},
                "HARNESS_TIMOUT: no such variable of the harness; did you mean HARNESS_TIMEOUT",
            ),
            ({"HARNESS_QQQQQQ": "5"}, "name it in other-variables"),
            ({**BUILD_SERVICE, "HARNESS_TIMOUT": "5"}, "HARNESS_TIMOUT: no such variable"),
        ):
            with self.subTest(environ), self.assertRaises(UsageError) as raised:
                variables.check(environ)
            self.assertIn(said, str(raised.exception))


class ReadTest(FileCase):
    """``read`` and ``apply``: which file, and what of it goes into the environment."""

    def test_which_file(self) -> None:
        """An argument goes before the variable, and that before the nearest file; "none" is no file."""
        self.write("seed = 1\n[profiles.ci]\nseed = 3\n")
        other = str(self.write("seed = 2\n", "other.toml"))
        for environ, named, seed in (
            ({}, {}, 1),
            ({EnvVar.CONFIG: "other.toml"}, {}, 2),
            ({EnvVar.CONFIG: "none"}, {}, None),
            ({EnvVar.CONFIG: "none"}, {"file": other}, 2),
            ({EnvVar.CONFIG: other}, {"file": "none"}, None),
            ({EnvVar.PROFILE: "ci"}, {}, 3),
            ({}, {"profile": "ci"}, 3),
        ):
            with self.subTest(environ, **named):
                found = variables.read(environ, self.directory, **named)
                self.assertEqual(found.values["seed"].value if "seed" in found.values else None, seed)

    def test_apply(self) -> None:
        """What the environment has stays, an empty text too."""
        self.write("seed = 1\ntimeout = 2\nranks = 'pooled'\n")
        environ = {EnvVar.SEED: "7", EnvVar.TIMEOUT: ""}
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.directory)
        variables.apply(environ)
        self.assertEqual(environ, {EnvVar.SEED: "7", EnvVar.TIMEOUT: "", EnvVar.RANKS: "pooled"})

    def test_removed_directory(self) -> None:
        """Where the working directory is gone there is no file."""
        with mock.patch("pathlib.Path.cwd", side_effect=FileNotFoundError):
            self.assertEqual(variables.apply({}).values, {})


if __name__ == "__main__":
    import unittest

    unittest.main()
