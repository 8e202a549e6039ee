"""Self-tests of harness.requirements.machine: facts of a machine, and run_facts read from an environment."""

from __future__ import annotations

import unittest
from dataclasses import replace

from harness.requirements import MachineFacts, RunFacts, run_facts_from
from harness.requirements.machine import wishes_from
from suites.selftest.requirements.sample_machines import CPU, CUDA_2, MAC

# A run on one host, without wishes.
ALONE = RunFacts(hosts=1)
MIXED = MachineFacts(accelerators=(("cuda", 2), ("mps", 5)), modules=(("numpy", True), ("absent", False)))


class MachineFactsTest(unittest.TestCase):
    """What can be asked of the facts."""

    def test_devices(self) -> None:
        """A type that the machine does not have counts zero, and a CPU is always one."""
        for device_type, expected in {"cpu": 1, "cuda": 2, "mps": 5, "xpu": 0}.items():
            with self.subTest(device_type=device_type):
                self.assertEqual(MIXED.devices(device_type), expected)

    def test_countable_devices(self) -> None:
        """The largest count of one type counts, without Metal, whose device has no peers."""
        two_types = MachineFacts(accelerators=(("cuda", 2), ("xpu", 3)))
        for facts, expected in ((CPU, 0), (CUDA_2, 2), (MAC, 0), (MIXED, 2), (two_types, 3)):
            with self.subTest(facts=facts):
                self.assertEqual(facts.countable_devices(), expected)

    def test_has_module(self) -> None:
        """A module that nobody has looked for is neither present nor absent."""
        found = [MIXED.has_module(name) for name in ("numpy", "absent", "unknown")]
        self.assertEqual(found, [True, False, None])

    def test_describe_accelerators(self) -> None:
        """All types are named with their counts."""
        self.assertEqual(MIXED.describe_accelerators(), "2 cuda, 5 mps")
        self.assertEqual(CPU.describe_accelerators(), "no accelerator")


class OccasionTest(unittest.TestCase):
    """What an environment says of a run."""

    def test_wishes(self) -> None:
        """Slow tests and the sandcastle have their own variables; other values mean no."""
        for environ, expected in (
            ({}, ALONE),
            ({"PYTORCH_TEST_WITH_SLOW": "1"}, replace(ALONE, slow=True)),
            ({"PYTORCH_TEST_WITH_SLOW": "0"}, ALONE),
            ({"SANDCASTLE": "1"}, replace(ALONE, sandcastle=True)),
            ({"TW_JOB_USER": "sandcastle"}, replace(ALONE, sandcastle=True)),
            ({"TW_JOB_USER": "me", "WORLD_SIZE": "3"}, ALONE),
        ):
            with self.subTest(environ=environ):
                self.assertEqual(wishes_from(environ), expected)

    def test_world_size_and_backend(self) -> None:
        """What the caller knows comes before the variables; backends are in lower case."""
        environ = {"WORLD_SIZE": "3", "BACKEND": "MPI"}
        self.assertEqual(run_facts_from(environ), replace(ALONE, world_size=3, backend="mpi"))
        self.assertEqual(
            run_facts_from(environ, world_size=2, backend="Gloo"),
            replace(ALONE, world_size=2, backend="gloo"),
        )
        self.assertEqual(run_facts_from({"WORLD_SIZE": "", "BACKEND": ""}), ALONE)

    def test_a_world_size_that_is_no_positive_number(self) -> None:
        """Such a WORLD_SIZE is an error where it is needed, and is not looked at where the caller knows."""
        for text in ("three", "0", "-2", "1.5"):
            with self.subTest(text=text):
                with self.assertRaisesRegex(ValueError, "WORLD_SIZE is .*set it to the number of ranks"):
                    run_facts_from({"WORLD_SIZE": text})
                self.assertEqual(run_facts_from({"WORLD_SIZE": text}, world_size=2).world_size, 2)


if __name__ == "__main__":
    unittest.main()
