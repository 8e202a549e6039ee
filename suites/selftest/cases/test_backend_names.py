"""Tests which names of backends are refused in ranks and before them, and what is said."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

import torch.distributed as dist

import harness
from harness.cases import backend_names
from harness.cases.ranks_mark import RanksMark
from harness.errors import UsageError
from harness.settings import EnvVar


def registered(*names: str) -> Any:
    """Makes torch know these backends too, as after ``register_backend``."""
    return mock.patch.object(dist.Backend, "backend_list", [*dist.Backend.backend_list, *names])


def said_by(check: Any, backend: str) -> str:
    """What a check says of a backend; "" where it says nothing."""
    try:
        check(backend)
    except UsageError as error:
        return str(error)
    return ""


class NamesTest(unittest.TestCase):
    """The names, and which of them are refused where."""

    def test_names(self) -> None:
        """One name, or one for each device type."""
        self.assertEqual(backend_names.names("Gloo"), ("gloo",))
        self.assertEqual(backend_names.names("cpu:gloo, cuda:nccl"), ("gloo", "nccl"))

    def test_table(self) -> None:
        """What is refused in ranks and before; a name that vendors may have given is left to the ranks."""
        table = {
            "gloo": ("", ""),
            "GLOO": ("", ""),
            "cpu:gloo,cuda:nccl": ("", ""),
            "glo": ("did you mean gloo?", "did you mean gloo?"),
            "cpu:golo": ("did you mean gloo?", "did you mean gloo?"),
            "ncl": ("did you mean nccl?", "did you mean nccl?"),
            "mccl": ("did you mean xccl?", ""),
            "pigeon": ("knows no process group backend 'pigeon'; it knows ", ""),
        }
        for backend, (in_rank, before) in table.items():
            with self.subTest(backend):
                for check, expected in (
                    (backend_names.check_in_rank, in_rank),
                    (backend_names.check_in_parent, before),
                ):
                    said = said_by(check, backend)
                    self.assertEqual(bool(said), bool(expected), said)
                    self.assertIn(expected, said)

    def test_registered(self) -> None:
        """What somebody has registered is known; what a plugin may register is the ranks' matter."""
        with registered("gloo2"):
            self.assertEqual(said_by(backend_names.check_in_rank, "gloo2"), "")
            self.assertEqual(said_by(backend_names.check_in_parent, "gloo2"), "")
        with mock.patch.dict("os.environ", {EnvVar.PLUGIN: "a_plugin"}):
            self.assertEqual(said_by(backend_names.check_in_parent, "gloo2"), "")

    def test_mark(self) -> None:
        """The mark refuses it with the words that the user wrote, and what is no name."""
        for backend, said in (("glo", "did you mean gloo?"), (4, "backend is a name")):
            with self.subTest(backend=backend), self.assertRaises(UsageError) as caught:
                RanksMark.of((2,), {"backend": backend})
            self.assertIn(said, str(caught.exception))
            self.assertIn(f"@pytest.mark.ranks(2, backend={backend!r}): ", str(caught.exception))
        with registered("gloo2"):
            self.assertEqual(RanksMark.of((2,), {"backend": "gloo2"}).backend, "gloo2")

    def test_classes(self) -> None:
        """A class's attribute is refused before ranks start, where they make the group by it."""

        class Pooled(harness.MultiProcContinuousTest):
            world_size = 2
            backend_str = "glo"  # type: ignore[assignment]  # upstream has a method

            def test(self) -> None:
                """Does nothing."""

        class OfItsOwn(Pooled):
            @classmethod
            def _init_pg(cls, rank: int, world_size: int, rdvz_file: str) -> None:
                """Makes no group."""

        class OnMesh(harness.DTensorTestBase):
            world_size = 2
            backend = "glo"

            def test(self) -> None:
                """Does nothing."""

        for case, refused in ((Pooled, True), (OfItsOwn, False), (OnMesh, True)):
            with self.subTest(case.__name__), mock.patch.object(case, "_spawn_processes") as started:
                test = case("test")
                result = unittest.TestResult()
                with mock.patch.object(test, "tearDown"):
                    test.run(result)
                self.assertEqual(started.called, not refused, result.errors)
                said = [text for _, text in result.errors if "did you mean gloo?" in text]
                self.assertEqual((len(result.errors), len(said)), (refused, refused))


if __name__ == "__main__":
    unittest.main()
