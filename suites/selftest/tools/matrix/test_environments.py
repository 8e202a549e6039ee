"""Tests what the environments of the matrix are made with, and what a failure to make one says."""

from __future__ import annotations

import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from tools.matrix import environments
from tools.matrix.environments import (
    RELEASES,
    Environment,
    NotMade,
    Pair,
    reason,
    requirements,
    uv_variables,
)
from tools.matrix.interpreters import MINORS, Interpreter

TREE = Path(__file__).resolve().parents[4]
SETUP = (TREE / "setup.py").read_text(encoding="utf-8")
PINNED = (TREE / "requirements.txt").read_text(encoding="utf-8")


class WhatIsSupported(unittest.TestCase):
    """The matrix beside setup.py and requirements.txt."""

    def test_pythons(self) -> None:
        """Each minor version of the matrix is a classifier of setup.py, and there is no other."""
        classified = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', SETUP)
        self.assertEqual(tuple(classified), MINORS)
        self.assertIn(f'python_requires=">={MINORS[0]}"', SETUP)

    def test_releases_of_torch(self) -> None:
        """The first and the last release are the ends of setup.py's range, and the last one is pinned."""
        first, last = (tuple(map(int, release.split(".")[:2])) for release in (RELEASES[0], RELEASES[-1]))
        self.assertIn(f'"torch>={first[0]}.{first[1]},<{last[0]}.{last[1] + 1}"', SETUP)
        self.assertIn(f"torch=={RELEASES[-1]}", PINNED.splitlines())


class Requirements(unittest.TestCase):
    """What is installed in an environment."""

    def test_only_the_release_of_torch_changes(self) -> None:
        """The pins of other libraries, also of those that are named after torch, stay as they are."""
        pinned = "# torch\ntorch==2.13.0\ntorchvision==1.0\nnumpy==2.4.6; python_version >= '3.11'\n"
        self.assertEqual(requirements(pinned, "2.11.0"), pinned.replace("2.13.0", "2.11.0"))

    def test_pins_without_torch_are_refused(self) -> None:
        """The pin of torch has to be a line of its own."""
        for pinned in ("", "numpy==1\n", "torch==2.13.0; python_version >= '3.11'\n"):
            with self.subTest(pinned), self.assertRaisesRegex(ValueError, "torch==RELEASE"):
                requirements(pinned, "2.11.0")


class Made(unittest.TestCase):
    """When an environment is installed, and when the one that is there is used."""

    def test_only_where_the_requirements_differ(self) -> None:
        """One that was made with the same requirements is used; one that was not finished is made anew."""
        pair = Pair(Interpreter("3.12.1", "/python"), "2.13.0")
        with tempfile.TemporaryDirectory() as directory, mock.patch.object(environments, "_run") as ran:
            cache = Path(directory)
            folder = cache / "environments" / pair.name
            folder.mkdir(parents=True)
            for pinned, installs in (
                ("torch==2.13.0\n", True),
                ("torch==2.13.0\n", False),
                ("torch==2.13.0\nnumpy==2\n", True),
            ):
                with self.subTest(pinned=pinned, installs=installs):
                    ran.reset_mock()
                    environment = environments.make(pair, pinned, cache)
                    self.assertEqual((environment.installed, ran.called), (pinned, installs))

    def test_a_failure_leaves_nothing_that_counts(self) -> None:
        """An environment in which torch cannot be imported is no environment, this time and the next."""
        pair = Pair(Interpreter("3.12.1", "/python"), "2.13.0")
        with tempfile.TemporaryDirectory() as directory, mock.patch.object(environments, "_run") as ran:
            for _ in range(2):
                ran.side_effect = [None, None, NotMade("ImportError: libcudart.so.13")]
                with mock.patch.object(environments, "_uv", return_value="uv"), self.assertRaises(NotMade):
                    environments.make(pair, "torch==2.13.0\n", Path(directory))


class Variables(unittest.TestCase):
    """The environment variables of uv and of what runs in an environment."""

    def test_of_uv(self) -> None:
        """uv's cache is in the matrix's, pip's folders of wheels count for it, and its own variables win."""
        cache = Path("/cache")
        defaults = {"UV_CACHE_DIR": "/cache/uv", "UV_HTTP_TIMEOUT": "600"}
        for environ, expected in (
            ({}, {}),
            ({"VIRTUAL_ENV": "/venv"}, {}),
            ({"PIP_FIND_LINKS": "/a /b"}, {"UV_FIND_LINKS": "/a,/b"}),
            ({"PIP_FIND_LINKS": "/a", "UV_FIND_LINKS": "/c"}, {"UV_FIND_LINKS": "/c"}),
            ({"UV_CACHE_DIR": "/mine"}, {"UV_CACHE_DIR": "/mine"}),
        ):
            with self.subTest(environ):
                found = uv_variables(environ, cache)
                self.assertEqual(
                    {n: v for n, v in found.items() if n.startswith(("UV", "V"))}, {**defaults, **expected}
                )

    def test_in_an_environment(self) -> None:
        """Its programs come first, and no other environment's modules come in."""
        found = Environment(Path("/e")).variables({"PATH": "/bin", "PYTHONPATH": "/x", "HOME": "/h"})
        self.assertEqual(found, {"PATH": "/e/bin:/bin", "VIRTUAL_ENV": "/e", "HOME": "/h"})


class Texts(unittest.TestCase):
    """Names of pairs, and reasons why there is no environment."""

    def test_names(self) -> None:
        """A pair's folder has both releases in its name."""
        pair = Pair(Interpreter("3.12.1", "/python"), "2.13.0")
        self.assertEqual(
            (pair.name, str(pair)), ("python-3.12.1-torch-2.13.0", "Python 3.12.1, torch 2.13.0")
        )

    def test_reasons(self) -> None:
        """The error is told in one line, or else the last thing that was said."""
        for output, expected in {
            "": "",
            "one\ntwo  words\n\n": "two words",
            "error: no   wheel\n  hint: use another\n": "error: no wheel",
            "Traceback\nImportError: libcudart.so.13\n": "ImportError: libcudart.so.13",
        }.items():
            with self.subTest(output):
                self.assertEqual(reason(output), expected)
