"""Meshes of ranks as values: who is where, slices, groups, equality and what is refused. No ranks.

One process takes the place of each rank in turn, in a group that moves nothing.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from harness import TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)

WORLD = 12
#: Three by four, the ranks row by row.
ROWS = torch.arange(WORLD, dtype=torch.int32).reshape(3, 4)
NAMES = ("rows", "columns")


@contextlib.contextmanager
def as_rank(rank):
    """This process is that rank of the world."""
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=WORLD)
    try:
        yield
    finally:
        dist.destroy_process_group()


def ranks_of(group):
    return dist.get_process_group_ranks(group)


class MeshTest(TestCase):
    """A mesh of two dimensions, and slices of it."""

    def test_places(self):
        for rank in (0, 6, 11):
            with as_rank(rank):
                mesh = init_device_mesh("cpu", (3, 4), mesh_dim_names=NAMES)
                at = row, column = divmod(rank, 4)
                self.assertEqual(mesh.mesh, ROWS)
                self.assertEqual((mesh.get_rank(), mesh.get_coordinate()), (rank, [row, column]))
                self.assertEqual([mesh.get_local_rank(dim) for dim in (0, 1, *NAMES)], [row, column] * 2)
                self.assertEqual((mesh.size(), mesh.size(0), mesh.size(1), mesh.shape), (12, 3, 4, (3, 4)))
                self.assertEqual((mesh.ndim, mesh.device_type, mesh.mesh_dim_names), (2, "cpu", NAMES))
                for dim, line in enumerate((ROWS[:, column], ROWS[row])):
                    self.assertEqual(ranks_of(mesh.get_group(dim)), line.tolist())
                    self.assertEqual(ranks_of(mesh.get_group(NAMES[dim])), line.tolist())
                    part = mesh[NAMES[dim]]
                    self.assertEqual((part.mesh, part.mesh_dim_names), (line, (NAMES[dim],)))
                    self.assertEqual(ranks_of(part.get_group()), line.tolist())
                    self.assertEqual((part.get_local_rank(), part.get_coordinate()), (at[dim], [at[dim]]))
                self.assertEqual(
                    [ranks_of(each) for each in mesh.get_all_groups()],
                    [ROWS[:, column].tolist(), ROWS[row].tolist()],
                )

    def test_three_dimensions(self):
        whole = ROWS.reshape(2, 3, 2)
        with as_rank(7):
            mesh = init_device_mesh("cpu", (2, 3, 2), mesh_dim_names=("a", "b", "c"))
            self.assertEqual(mesh.get_coordinate(), [1, 0, 1])
            for names, part in (
                (("a", "c"), whole[:, 0]),
                (("a", "b"), whole[..., 1]),
                (("b", "c"), whole[1]),
                (("b",), whole[1, :, 1]),
            ):
                self.assertEqual(mesh[names].mesh, part)
                self.assertEqual(mesh[names].mesh_dim_names, names)
            self.assertEqual(mesh["a", "c"]["c"].mesh, whole[1, 0])
            flat = mesh["b", "c"]._flatten("bc")
            self.assertEqual((flat.mesh, flat.mesh_dim_names), (whole[1].flatten(), ("bc",)))
            self.assertEqual(ranks_of(flat.get_group()), whole[1].flatten().tolist())
            self.assertEqual(mesh["a", "b", "c"], mesh)

    def test_ranks_in_an_order_of_their_own(self):
        """Of half of the world, and with one who is not in it."""
        some = [[11, 3], [0, 8]]
        for rank, place in ((3, [0, 1]), (0, [1, 0]), (5, None)):
            with as_rank(rank):
                mesh = DeviceMesh("cpu", some, mesh_dim_names=NAMES)
                self.assertEqual((mesh.get_coordinate(), mesh.size()), (place, 4))
                if place is not None:
                    self.assertEqual(mesh["columns"].mesh.tolist(), some[place[0]])
                    self.assertEqual(ranks_of(mesh.get_group(1)), sorted(some[place[0]]))

    def test_from_groups(self):
        with as_rank(6):
            mesh = init_device_mesh("cpu", (3, 4), mesh_dim_names=NAMES)
            one = DeviceMesh.from_group(mesh.get_group(1), "cpu")
            self.assertEqual((one.mesh, one.get_group(0)), (ROWS[1], mesh.get_group(1)))
            both = DeviceMesh.from_group(mesh.get_all_groups(), "cpu", mesh=ROWS, mesh_dim_names=NAMES)
            self.assertEqual((both.mesh, both.get_all_groups()), (ROWS, mesh.get_all_groups()))
            with self.assertRaisesRegex(ValueError, "Must pass mesh if passing multiple"):
                DeviceMesh.from_group(mesh.get_all_groups(), "cpu")

    def test_groups(self):
        """They are called after their dimensions, and made line by line on all ranks."""
        numbers = {}
        for rank in (0, 6, 11):
            with as_rank(rank):
                for names in (NAMES, None):
                    mesh = init_device_mesh("cpu", (3, 4), mesh_dim_names=names)
                    found = [each.group_desc for each in mesh.get_all_groups()]
                    self.assertEqual(found, [f"mesh_{name}" for name in names or ("dim_0", "dim_1")])
                    groups = [int(each.group_name) for each in mesh.get_all_groups()]
                    row, column = divmod(rank, 4)
                    first = numbers.setdefault(names, groups)
                    self.assertEqual(groups, [first[0] + column, first[1] + row])
                self.assertIs(init_device_mesh("cpu", (WORLD,)).get_group(), dist.group.WORLD)

    def test_joined_again(self):
        """Slices of one mesh make a mesh, in whatever order they come, with their names and groups."""
        with as_rank(6):
            mesh = init_device_mesh("cpu", (3, 4), mesh_dim_names=NAMES)
            rows, columns = (mesh[name] for name in NAMES)
            for parts, whole in (((rows, columns), ROWS), ((columns, rows), ROWS.t())):
                joined = DeviceMesh._concatenate(list(parts))
                self.assertEqual(joined.mesh_dim_names, tuple(each.mesh_dim_names[0] for each in parts))
                self.assertEqual(joined.mesh, whole)
                self.assertEqual(joined.get_all_groups(), [each.get_group() for each in parts])
                self.assertEqual(joined[NAMES[0]], rows)
            half = DeviceMesh("cpu", [[0, 1], [6, 7]], mesh_dim_names=("a", "b"))
            with self.assertRaisesRegex(RuntimeError, "overlapping"):
                DeviceMesh._concatenate([rows, rows])
            with self.assertRaisesRegex(RuntimeError, "different device mesh"):
                DeviceMesh._concatenate([rows, half["b"]])

    def test_equality(self):
        """Of meshes of the same ranks in one order, of one kind of device, with the same names."""
        with as_rank(0):

            def made(ranks, names=NAMES, device="cpu"):
                return DeviceMesh(device, ranks, mesh_dim_names=names)

            first, again = made([[0, 1], [2, 3]]), made([[0, 1], [2, 3]])
            self.assertEqual(first, again)
            self.assertEqual(hash(first), hash(again))
            for other in (
                made([[4, 5], [6, 7]]),
                made([[0, 2], [1, 3]]),
                made([[0, 1, 2, 3]]),
                made([[0, 1], [2, 3]], ("columns", "rows")),
                made([[0, 1], [2, 3]], None),
                made([[0, 1], [2, 3]], device="meta"),
            ):
                self.assertNotEqual(first, other)
            self.assertNotEqual(first, "a mesh")

    def test_refusals(self):
        with as_rank(0):
            mesh = init_device_mesh("cpu", (3, 4), mesh_dim_names=NAMES)
            nameless = init_device_mesh("cpu", (3, 4))
            for kind, words, call in (
                (KeyError, "Invalid mesh_dim_name", lambda: mesh["depth"]),
                (KeyError, "Invalid mesh_dim_name|order", lambda: mesh["columns", "rows"]),
                (RuntimeError, "without mesh_dim_names", lambda: nameless["rows"]),
                (RuntimeError, "mesh_dim.* needs? to be specified|Optional kwarg", lambda: mesh.get_group()),
                (
                    RuntimeError,
                    "mesh_dim.* needs? to be specified|Optional kwarg",
                    lambda: mesh.get_local_rank(),
                ),
                (
                    RuntimeError,
                    "must be unique",
                    lambda: init_device_mesh("cpu", (3, 4), mesh_dim_names=("a", "a")),
                ),
                (RuntimeError, "same length", lambda: init_device_mesh("cpu", (3, 4), mesh_dim_names=("a",))),
                (RuntimeError, "Device type with index", lambda: init_device_mesh("cuda:0", (3, 4))),
            ):
                with self.subTest(words), self.assertRaisesRegex(kind, words):
                    call()


if __name__ == "__main__":
    run_tests()
