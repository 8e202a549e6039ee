"""Self-tests of harness.requirements.attach: requirements on a whole class, and in its subclasses."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

from harness import requirements as r
from harness.requirements import probes
from harness.requirements.kinds import Backends, DeviceTypes
from harness.requirements.scheduling import Timeout
from suites.selftest.requirements.sample_machines import BARE, CPU, CUDA_2, run, skips


def backends_of(cls: type) -> list[tuple[str, ...]]:
    """The alternatives of each requirement of a backend, in the order in which they are checked."""
    items = r.requirements_of(cls, "test_it").items
    return [item.any_of for item in items if isinstance(item, Backends)]


class OnClasses(unittest.TestCase):
    """A class with requirements skips before its setUpClass; subclasses inherit the requirements."""

    def make(self, *decorators: Any) -> type[Any]:
        class Case(unittest.TestCase):
            events: list[str] = []  # noqa: RUF012  # a class of its own for each call

            @classmethod
            def setUpClass(cls) -> None:
                cls.events.append("class")

            def setUp(self) -> None:
                self.events.append("set up")

            def test_it(self) -> None:
                self.events.append("ran")

        decorated: type[Any] = Case
        for decorator in decorators:
            decorated = decorator(decorated)
        self.assertIs(decorated, Case)
        return decorated

    def test_a_class_that_may_run(self) -> None:
        case = self.make(r.requires_gloo(), r.skip_if_lt_x_gpu(2, allow_cpu=True))
        self.assertEqual(run(case).skipped, [])
        self.assertEqual(case.events, ["class", "set up", "ran"])

    def test_a_class_that_may_not_is_not_even_set_up(self) -> None:
        case = self.make(r.requires_gloo(), r.skip_if_lt_x_gpu(2))
        self.assertEqual(skips(run(case)), {"test_it": "needs 2 accelerators, found no accelerator"})
        self.assertIn("gloo", skips(run(case, r.MachineFacts(CUDA_2.accelerators, frozenset())))["test_it"])
        self.assertEqual(run(case, CUDA_2).skipped, [])
        self.assertEqual(case.events, ["class", "set up", "ran"])

    def test_a_subclass_inherits_and_adds(self) -> None:
        base = self.make(r.requires_gloo())

        class Plain(base):  # type: ignore[valid-type, misc]  # a class made at run time
            def setUp(self) -> None: ...

        @r.requires_nccl()
        class Nccl(base): ...  # type: ignore[valid-type, misc]  # a class made at run time

        self.assertIn("gloo", skips(run(Plain, BARE))["test_it"])
        self.assertEqual(run(Plain, CPU).skipped, [])
        self.assertIn("nccl", skips(run(Nccl, CPU))["test_it"])
        self.assertEqual(run(Nccl, CUDA_2).skipped, [])
        self.assertEqual(run(base, CPU).skipped, [])
        self.assertEqual(backends_of(Nccl), [("nccl",), ("gloo",)])
        self.assertEqual(backends_of(base), [("gloo",)])

    def test_several_bases(self) -> None:
        left, right = self.make(r.requires_gloo()), self.make(r.timeout(7), r.requires_cuda)
        both = type("Both", (left, right), {})
        got = r.requirements_of(both, "test_it")
        self.assertEqual([type(item) for item in got.items], [Backends, DeviceTypes, Timeout])
        self.assertEqual(got.timeout_s, 7)
        self.assertIn("cuda", skips(run(both, CPU))["test_it"])

    def test_beside_unittest_skip(self) -> None:
        for decorators in (
            (r.requires_gloo(), unittest.skip("theirs")),
            (unittest.skip("theirs"), r.requires_cuda),
        ):
            self.assertEqual(skips(run(self.make(*decorators))), {"test_it": "theirs"})

    def test_the_class_speaks_before_the_method(self) -> None:
        @r.requires_gloo()
        class Case(unittest.TestCase):
            @r.requires_cuda
            def test_it(self) -> None: ...

        self.assertIn("gloo", skips(run(Case, BARE))["test_it"])
        with mock.patch.object(probes, "probe", return_value=BARE):
            self.assertIn("gloo", str(r.skip_reason(Case("test_it"))))

    def test_a_world_size_that_only_the_instance_knows(self) -> None:
        case = self.make(r.skip_if_odd_worldsize)
        with mock.patch.object(case, "world_size", property(lambda self: 3), create=True):
            self.assertEqual(skips(run(case)), {"test_it": "needs an even number of ranks, got 3"})
        self.assertEqual(case.events, ["class"])
        with mock.patch.object(case, "world_size", property(lambda self: 4), create=True):
            self.assertEqual(run(case).skipped, [])
        self.assertEqual(case.events, ["class", "class", "set up", "ran"])

    def test_a_driver_is_asked_once_the_class_could_run(self) -> None:
        case = self.make(r.requires_multicast_support())
        self.assertIn("multicast", skips(run(case, CPU))["test_it"])
        self.assertEqual(case.events, [])
        with mock.patch.object(probes, "multicast_here", return_value=False):
            self.assertIn("multicast", skips(run(case, CUDA_2))["test_it"])
        with mock.patch.object(probes, "multicast_here", return_value=True):
            self.assertEqual(run(case, CUDA_2).skipped, [])

    def test_a_class_cannot_pass_in_a_sandcastle(self) -> None:
        case = self.make(r.requires_nccl())
        with mock.patch.dict("os.environ", {"SANDCASTLE": "1"}):
            self.assertEqual(list(skips(run(case))), ["test_it"])

    def test_decoration_probes_nothing(self) -> None:
        with mock.patch.object(probes, "probe", side_effect=AssertionError("probed")):
            base = self.make(r.requires_nccl(), r.skip_if_no_gpu, r.requires_cuda)
            derived = r.requires_gloo()(type("Derived", (base,), {}))
            unittest.defaultTestLoader.loadTestsFromTestCase(derived)
            self.assertEqual(len(r.requirements_of(derived, "test_it").items), 4)


if __name__ == "__main__":
    unittest.main()
