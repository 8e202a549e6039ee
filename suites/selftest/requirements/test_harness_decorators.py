"""Self-tests of harness.requirements.harness_decorators: the requirement that each decorator attaches."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

from harness import requirements as r
from harness.requirements.kinds import Backends, DeviceTypes, Hosts
from harness.requirements.scheduling import CpuSlots, Exclusive, Memory, Timeout

DECORATORS: list[tuple[Callable[[Any], Any], r.Requirement]] = [
    (r.timeout(90), Timeout(seconds=90.0, reason="takes up to 90 s")),
    (r.timeout(0.5), Timeout(seconds=0.5, reason="takes up to 0.5 s")),
    (r.exclusive, Exclusive(reason="needs the machine to itself")),
    (r.cpu_slots(2), CpuSlots(count=2, reason="keeps 2 processors busy")),
    (r.requires_hosts(2), Hosts(count=2, reason="needs 2 hosts")),
    (r.memory_mb(700), Memory(mebibytes=700, reason="needs 700 MiB of memory")),
    (
        r.requires_backend("NCCL", "gloo"),
        Backends(any_of=("nccl", "gloo"), reason="needs a torch build with the nccl or gloo backend"),
    ),
    (
        r.requires_device_type("cuda", "xpu"),
        DeviceTypes(any_of=("cuda", "xpu"), reason="needs a cuda or xpu device"),
    ),
]


class HarnessDecoratorsTest(unittest.TestCase):
    """The decorators that PyTorch's tests do not have, on methods and on classes."""

    def test_on_a_method(self) -> None:
        """The decorator attaches one requirement."""
        for decorator, expected in DECORATORS:
            with self.subTest(expected=expected):
                case = type("Case", (unittest.TestCase,), {"test_it": decorator(lambda self: None)})
                self.assertEqual(r.requirements_of(case, "test_it").items, (expected,))

    def test_on_a_class(self) -> None:
        """The requirement of a class is one of each of its tests, and the class stays the same object."""
        for decorator, expected in DECORATORS:
            with self.subTest(expected=expected):
                case = type("Case", (unittest.TestCase,), {"test_it": lambda self: None})
                self.assertIs(decorator(case), case)
                self.assertEqual(r.requirements_of(case, "test_it").items, (expected,))

    def test_two_backends_are_both_needed(self) -> None:
        """Two decorators, one above the other, need both; the alternatives of one need any."""
        both = r.requires_backend("gloo")(r.requires_backend("nccl", "ucc")(lambda self: None))
        case = type("Case", (unittest.TestCase,), {"test_it": both})
        requirements = r.requirements_of(case, "test_it")
        for backends, runs in (
            ({"gloo"}, False),
            ({"ucc"}, False),
            ({"gloo", "ucc"}, True),
            ({"gloo", "nccl"}, True),
        ):
            with self.subTest(backends=backends):
                facts = r.MachineFacts(backends=frozenset(backends))
                self.assertIs(r.unmet(requirements, facts) is None, runs)


if __name__ == "__main__":
    unittest.main()
