"""Self-tests of harness.requirements.attach: the verdict where a fact is not known, and for imports."""

from __future__ import annotations

import os
import unittest
from typing import Any
from unittest import mock

from harness import requirements as r
from harness.requirements import probes
from suites.selftest.requirements.sample_machines import (
    CPU,
    CUDA_1,
    Decorator,
    Row,
    case_of,
    machine,
    outcome,
)


class Unknown(unittest.TestCase):
    """An unknown fact is no reason to skip; where it must be known, its absence is an error."""

    def test_a_world_size_that_nobody_says(self) -> None:
        for decorator in (r.skip_if_small_worldsize, r.skip_if_odd_worldsize):
            test = case_of(Row(decorator, CPU, None))
            with (
                mock.patch.dict(os.environ, clear=True),
                mock.patch.object(probes, "probe", return_value=CPU),
            ):
                self.assertIsNone(r.skip_reason(test))
                with self.assertRaisesRegex(ValueError, "world_size attribute, or set WORLD_SIZE"):
                    type(test).test_it(test)  # type: ignore[attr-defined]

    def test_a_world_size_that_is_none(self) -> None:
        """A WORLD_SIZE that is not a number is an error for a test that needs one."""
        test = case_of(Row(r.skip_if_odd_worldsize, CPU, None))
        with (
            machine(CPU, {"WORLD_SIZE": "three"}),
            self.assertRaisesRegex(ValueError, "WORLD_SIZE is 'three'"),
        ):
            r.skip_reason(test)

    def test_a_bad_world_size_hurts_only_the_tests_that_need_one(self) -> None:
        with (
            mock.patch.dict(os.environ, {"WORLD_SIZE": "three"}),
            mock.patch.object(probes, "probe", return_value=CPU),
        ):
            self.assertIsNone(outcome(case_of(Row(r.requires_gloo(), CPU, None))))

    def test_the_sentinel_of_an_unset_world_size_is_no_world_size(self) -> None:
        test = case_of(Row(r.skip_if_odd_worldsize, CPU, None, world_size=-2))
        with (
            mock.patch.dict(os.environ, {"WORLD_SIZE": "3"}),
            mock.patch.object(probes, "probe", return_value=CPU),
        ):
            self.assertIn("got 3", str(r.skip_reason(test)))

    def test_the_test_says_its_world_size_as_text_and_its_backend(self) -> None:
        class Plain(unittest.TestCase):
            world_size = "3"
            backend = "mpi"

            @r.skip_if_odd_worldsize
            def test_it(self) -> None:
                pass

        with (
            mock.patch.dict(os.environ, {"BACKEND": "gloo"}),
            mock.patch.object(probes, "probe", return_value=CPU),
        ):
            self.assertIsNone(r.skip_reason(Plain("test_it")))
            with mock.patch.object(Plain, "backend", "gloo"):
                self.assertIn("got 3", str(r.skip_reason(Plain("test_it"))))

    def test_multicast_is_asked_of_the_driver_only_when_the_test_is_called(self) -> None:
        test = case_of(Row(r.requires_multicast_support(), CUDA_1, None))
        with mock.patch.object(probes, "probe", return_value=CUDA_1):
            with mock.patch.object(probes, "multicast_here", return_value=False) as asked:
                self.assertIsNone(r.skip_reason(test))
                asked.assert_not_called()
                self.assertEqual(outcome(test), "needs CUDA devices with multicast")
            with mock.patch.object(probes, "multicast_here", return_value=True):
                self.assertIsNone(outcome(test))


class Imports(unittest.TestCase):
    """Requirements of modules: presence is checked before the launch, the import when the test is called."""

    def verdicts(self, decorator: Decorator, modules: dict[str, Any]) -> tuple[str | None, str | None]:
        test = case_of(Row(decorator, CPU, None))
        with mock.patch.dict("sys.modules", modules), mock.patch.object(probes, "probe", return_value=CPU):
            return r.skip_reason(test), outcome(test)

    def test_a_module_that_is_not_there(self) -> None:
        for decorator, module in (
            (r.import_transformers_or_skip(), "transformers"),
            (r.skip_if_no_torchvision, "torchvision"),
        ):
            reason = f"needs the {module} package"
            self.assertEqual(self.verdicts(decorator, {module: None}), (reason, reason))

    def test_a_module_that_is_there(self) -> None:
        present = {"transformers": mock.MagicMock(), "torchvision": mock.MagicMock()}
        self.assertEqual(self.verdicts(r.import_transformers_or_skip(), present), (None, None))
        self.assertEqual(self.verdicts(r.skip_if_no_torchvision, present), (None, None))

    def test_a_module_that_lacks_a_name_is_found_out_where_it_is_used(self) -> None:
        verdicts = self.verdicts(r.import_transformers_or_skip(), {"transformers": mock.Mock(spec=[])})
        self.assertEqual(verdicts, (None, "needs the transformers package"))


if __name__ == "__main__":
    unittest.main()
