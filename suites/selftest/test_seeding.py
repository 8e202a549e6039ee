"""Self-tests of harness.seeding: the seed, draws that repeat, and failures that name the seed."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
import traceback
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import torch

import harness
from harness import seeding
from harness.errors import UsageError

# Where this process found the harness, for the processes it starts.
SEARCH_PATH = os.pathsep.join([str(Path(harness.__file__).parents[1]), *sys.path])


def draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), float(torch.rand(()))


class BaseSeedTest(unittest.TestCase):
    def test_from_the_environment(self) -> None:
        self.assertEqual(seeding.base_seed({}), 1234)
        self.assertEqual(seeding.base_seed({"HARNESS_SEED": ""}), 1234)
        self.assertEqual(seeding.base_seed({"HARNESS_SEED": "0"}), 0)
        self.assertEqual(seeding.base_seed({"HARNESS_SEED": "4294967295"}), 2**32 - 1)

    def test_a_seed_that_is_none(self) -> None:
        for text in ("x", "-1", "1.5", "4294967296"):
            with self.subTest(text=text), self.assertRaisesRegex(UsageError, "HARNESS_SEED"):
                seeding.base_seed({"HARNESS_SEED": text})

    def test_other_variables_do_not_matter(self) -> None:
        self.assertEqual(seeding.base_seed({"HARNESS_SEED": "5", "HARNESS_TIMEOUT": "soon"}), 5)


class SeedAllTest(unittest.TestCase):
    def test_every_generator_repeats(self) -> None:
        seeding.seed_all(7)
        first = draws()
        again = draws()
        seeding.seed_all(7)
        self.assertEqual(draws(), first)
        for one, other in zip(first, again, strict=True):
            self.assertNotEqual(one, other)

    def test_every_generator_depends_on_the_seed(self) -> None:
        seeding.seed_all(7)
        first = draws()
        seeding.seed_all(8)
        for one, other in zip(first, draws(), strict=True):
            self.assertNotEqual(one, other)

    def test_torch_draws_what_manual_seed_draws(self) -> None:
        seeding.seed_all(11)
        ours = torch.rand(3)
        torch.manual_seed(11)
        self.assertTrue(torch.equal(ours, torch.rand(3)))

    def test_a_build_for_devices(self) -> None:
        """Existing devices are seeded; for a device type without devices, torch queues no call."""
        self.addCleanup(seeding._has_device.cache_clear)
        for count in (0, 1):
            seeding._has_device.cache_clear()
            with (
                mock.patch.object(torch.accelerator, "current_accelerator", lambda: torch.device("cuda")),
                mock.patch.object(torch.cuda, "device_count", lambda count=count: count),
                mock.patch.object(torch, "manual_seed") as everywhere,
            ):
                seeding.seed_all(12)
            self.assertEqual(everywhere.call_count, count)

    def test_nothing_is_imported_for_it(self) -> None:
        code = (
            "import sys; from harness import seeding; seeding.seed_all(1); "
            "print('torch' in sys.modules or 'numpy' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "False\n")

    def test_a_numpy_without_its_generators_is_seeded(self) -> None:
        # torch imports numpy, and numpy imports its generators on first use.
        code = (
            "import numpy, sys; from harness import seeding; early = 'numpy.random' in sys.modules; "
            "seeding.seed_all(5); print(early, numpy.random.rand())"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        np.random.seed(5)
        self.assertEqual(done.stdout, f"False {np.random.rand()}\n")


class ReproductionTest(unittest.TestCase):
    def test_the_line(self) -> None:
        self.assertEqual(seeding.reproduction(7), "seed 7: HARNESS_SEED=7")

    def test_it_shows_once_and_changes_nothing_else(self) -> None:
        class Odd(Exception):
            def __init__(self, code: int, *, hint: str) -> None:
                super().__init__(code)
                self.hint = hint

            def __str__(self) -> str:
                return f"odd {self.args[0]} {self.hint}"

        for error in (
            AssertionError("no"),
            KeyError("k"),
            OSError(2, "gone"),
            ValueError(),
            Odd(3, hint="h"),
        ):
            with self.subTest(error=error):
                before = (type(error), dict(vars(error)), error.args)
                for _ in range(2):
                    seeding.add_reproduction(error, 7)
                text = "".join(traceback.format_exception_only(type(error), error))
                if hasattr(error, "add_note"):
                    self.assertEqual(text.count("seed 7: HARNESS_SEED=7"), 1)
                    after = {name: value for name, value in vars(error).items() if name != "__notes__"}
                    self.assertEqual((type(error), after, error.args), before)

    def test_it_survives_the_way_to_another_process(self) -> None:
        error = AssertionError("no")
        seeding.add_reproduction(error, 7)
        text = "".join(traceback.format_exception_only(pickle.loads(pickle.dumps(error))))
        self.assertIn("seed 7: HARNESS_SEED=7", text)

    def test_appending_to_a_message(self) -> None:
        plain, composed, bare = AssertionError("no", 5), KeyError("k"), ValueError()
        alone = AssertionError("no")
        for error in (plain, composed, bare, alone, alone):
            seeding.append_to_message(error, "line")
        self.assertEqual(alone.args, ("no\nline",))
        self.assertEqual((plain.args, composed.args, bare.args), (("no", 5), ("k",), ()))


FAILING = """
import random, unittest
from harness.testcase import TestCase

class T(TestCase):
    def setUp(self):
        self.early = random.random()
    def test_body(self):
        raise KeyError("drew %r" % self.early)
    def test_sub(self):
        for i in (1, 2):
            with self.subTest(i=i):
                self.assertEqual(i, 0)
    def test_skipped(self):
        self.skipTest("not today")

class S(TestCase):
    def setUp(self):
        raise OSError("no set-up")
    def test_setup(self):
        pass

class D(TestCase):
    def tearDown(self):
        raise OSError("no tear-down")
    def test_teardown(self):
        pass

if __name__ == "__main__":
    unittest.main()
"""


class ShownOnFailureTest(unittest.TestCase):
    """A failure names the seed, whichever runner runs the test."""

    def output(self, *command: str, seed: str = "77") -> str:
        import tempfile

        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "test_failing.py")
            with open(path, "w") as file:
                file.write(FAILING)
            environ = {**os.environ, "HARNESS_SEED": seed, "PYTHONPATH": SEARCH_PATH}
            environ.pop("CI", None)  # where pytest tells every failure twice
            done = subprocess.run(
                [sys.executable, *command, path],
                env=environ, capture_output=True, text=True, check=False, cwd=directory,
            )  # fmt: skip
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            return done.stdout + done.stderr

    @unittest.skipIf(sys.version_info < (3, 11), "exceptions have no notes before Python 3.11")
    def test_under_unittest_and_pytest(self) -> None:
        random.seed(77)
        drawn = f"drew {random.random()!r}"
        for command in ((), ("-m", "pytest", "-q", "-p", "no:cacheprovider")):
            with self.subTest(command=command):
                text = self.output(*command)
                # The bodies of test_body, set-up and tear-down, and both sub-tests.
                self.assertEqual(text.count("seed 77: HARNESS_SEED=77"), 5, text)
                self.assertIn(drawn, text)

    def test_the_reader_is_led_to_the_test_and_not_into_the_harness(self) -> None:
        text = self.output()
        self.assertIn("self.assertEqual(i, 0)", text)
        self.assertNotIn(os.path.join("harness", "testcase.py"), text)


if __name__ == "__main__":
    unittest.main()
