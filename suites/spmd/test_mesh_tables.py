"""What meshes are, and which groups are made for them: slices, flat ones, parts, as ``meshes.txt`` has it.

One process takes the place of some ranks in turn, in a group that moves nothing. A section that is not as
torch has it is shown as it would have to be.
"""

from __future__ import annotations

import pickle
import sys
import unittest
import warnings
from datetime import timedelta
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FakeProcessGroup
from torch.distributed import _functional_collectives, device_mesh
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from harness import TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.accepted_sections import accepted_sections, check_section
from suites.spmd.test_meshes import as_rank
from suites.told_programs import told_warnings

ACCEPTED = Path(__file__).with_name("meshes.txt")
#: The ranks whose place is taken.
RANKS = (0, 7, 10)
REFUSALS = (ValueError, RuntimeError, AssertionError, AttributeError, KeyError, TypeError, IndexError)


def options(seconds):
    """Options of a backend, of which a time limit is to be seen."""
    made = FakeProcessGroup.Options()
    made._timeout = timedelta(seconds=seconds)
    return made


def cube():
    """A mesh of all ranks, whose groups are not noted."""
    with mock.patch.object(device_mesh, "new_group", dist.new_group):
        return init_device_mesh("cpu", (2, 3, 2), mesh_dim_names=("a", "b", "c"))


def with_flat(*names, of=None):
    """The cube with two of its dimensions flattened, under a name of their own."""
    mesh = cube() if of is None else of
    mesh[names]._flatten("".join(names).upper())
    return mesh


#: Meshes, and questions to them, as they are written.
EXPRESSIONS = (
    "cube()",
    "init_device_mesh('cpu', (12,))",
    "init_device_mesh('cpu', (12,), mesh_dim_names=('all',))",
    "init_device_mesh('cpu', (3, 4))",
    "init_device_mesh('cpu', (2, 2))",
    "init_device_mesh('cpu', (4, 3), mesh_dim_names=('x', 'y'), backend_override={'y': 'fake'})",
    "init_device_mesh('cpu', (4, 3), backend_override={0: 'fake'})",
    "init_device_mesh('cpu', (12,), backend_override={0: 'fake'})",
    "init_device_mesh('cpu', (4, 3), mesh_dim_names=('x', 'y'), backend_override={'y': options(9)})",
    "init_device_mesh('cpu', (4, 3), mesh_dim_names=('x', 'y'), backend_override={1: ('fake', options(8))})",
    "init_device_mesh('cpu', (4, 3), mesh_dim_names=('x', 'y'), backend_override={1: 'fake', 'y': 'fake'})",
    "init_device_mesh('cpu', (4, 3), mesh_dim_names=('x', 'y'), backend_override={'z': 'fake'})",
    "init_device_mesh('cpu', (4, 3), backend_override={5: 'fake'})",
    "init_device_mesh('cpu', (4, 3), backend_override={0: 5})",
    "init_device_mesh('cpu', (4, 3), mesh_dim_names=('x',))",
    "init_device_mesh('cpu', (4, 3), mesh_dim_names=('x', 'x'))",
    "init_device_mesh('cpu:0', (4, 3))",
    "init_device_mesh('cpu', (4, 6))",
    "DeviceMesh('cpu', torch.arange(12).reshape(4, 3).t(), mesh_dim_names=('x', 'y'))",
    "DeviceMesh('cpu', [[7, 0], [3, 10]], mesh_dim_names=['x', 'y'])",
    "DeviceMesh('cpu', [7, 0, 3])",
    "DeviceMesh('cpu', [7, 0, 3], _init_backend=False)",
    "DeviceMesh('cpu', [7, 0, 3], _init_backend=False).get_group()",
    "DeviceMesh('cpu', [7, 0, 7])",
    "DeviceMesh('cpu', 7)",
    "DeviceMesh('cpu', [[7, 10], [0, 3]], _rank=0, _init_backend=False)",
    "DeviceMesh('cpu', [7, 0, 3], backend_override=((None, None), (None, None)))",
    "DeviceMesh('cpu')",
    "DeviceMesh('cpu', [7], _rank_map=torch.arange(3))",
    "DeviceMesh('xla', [7, 0, 3]).mesh",
    "cube()['a']",
    "cube()['c', 'a']",
    "cube()['b', 'c']",
    "cube()['a', 'b', 'c']",
    "cube()['a', 'b']['b']",
    "cube()['a', 'b']['c']",
    "cube()['a', 'a']",
    "cube()['d']",
    "init_device_mesh('cpu', (3, 4))['a']",
    "with_flat('a', 'b')",
    "with_flat('a', 'b')['AB']",
    "with_flat('a', 'c')['AC', 'b']",
    "with_flat('a', 'b')['AB', 'a']",
    "with_flat('b', 'c')['a', 'b']",
    "with_flat('b', 'c')['a', 'b']['BC']",
    "with_flat('a', 'b').get_group('AB')",
    "with_flat('a', 'b')['a', 'b'].get_group('AB')",
    "with_flat('a', 'c').get_local_rank('AC')",
    "with_flat('a', 'b').get_local_rank('BC')",
    "cube()._flatten()",
    "cube()['b', 'c']._flatten()",
    "cube()['b', 'c']._flatten('b')",
    "cube()['b']._flatten('B')",
    "cube()['b', 'c']._flatten('f', backend_override='fake')",
    "cube()['b', 'c']._flatten('f', backend_override=options(5))",
    "cube()['b', 'c']._flatten('f', backend_override=('fake', options(6)))",
    "with_flat('a', 'b', of=with_flat('a', 'b'))['AB']",
    "[with_flat('a', 'b')['c']._flatten('AB')]",
    "init_device_mesh('cpu', (3, 4))._flatten()",
    "init_device_mesh('cpu', (3, 4))._flatten('all')",
    "init_device_mesh('cpu', (12,), mesh_dim_names=('x',))._unflatten(0, (3, 4), ('y', 'z'))",
    "cube()._unflatten('b', (3, 1), ('d', 'e'))",
    "cube()._unflatten(1, (1, 3), ('d', 'e'))['a', 'e']",
    "with_flat('b', 'c')['BC']._unflatten(0, (2, 3), ('d', 'e'))",
    "cube()._unflatten('b', (3,), ('d',), {'d': 'fake'})",
    "cube()._unflatten('b', (3, 1), ('d', 'e'), {'e': options(4)})",
    "cube()._unflatten('b', (2, 2), ('d', 'e'))",
    "cube()._unflatten('b', (3, 1), ('d',))",
    "cube()._unflatten(3, (3, 1), ('d', 'e'))",
    "cube()._unflatten('z', (3, 1), ('d', 'e'))",
    "cube()._unflatten('b', (3, 1), ('a', 'e'))",
    "cube()._unflatten('b', (3, 1), ('d', 'e'), {'z': 'fake'})",
    "DeviceMesh('cpu', range(12), mesh_dim_names='x', _init_backend=False)._unflatten(0, (3, 4), 'yz')",
    "(lambda m: DeviceMesh._concatenate([m['c'], m['a']]))(cube())",
    "(lambda m: DeviceMesh._concatenate([m['a', 'b'], m['c']]))(cube())",
    "(lambda m: DeviceMesh._concatenate([m['b', 'c'], m['c']]))(cube())",
    "(lambda m: DeviceMesh._concatenate([m['AB'], m['c']])['AB'])(with_flat('a', 'b'))",
    "DeviceMesh._concatenate([cube()['a'], DeviceMesh('cpu', [[0, 7], [3, 4]], mesh_dim_names='xy')['x']])",
    "(lambda m: DeviceMesh.from_group(m.get_group('b'), 'cpu'))(cube())",
    "(lambda m: DeviceMesh.from_group(m.get_group('b'), 'cpu', mesh_dim_names=('x',)))(cube())",
    "(lambda m: DeviceMesh.from_group([m.get_group('b')], 'cpu', [0, 2, 4], mesh_dim_names=('x',)))(cube())",
    "(lambda m: DeviceMesh.from_group(m.get_group('b'), 'cpu', [0, 1, 2]))(cube())",
    "(lambda m: DeviceMesh.from_group(m.get_all_groups(), 'cpu', m.mesh, mesh_dim_names='xyz'))(cube())",
    "(lambda m: DeviceMesh.from_group(m.get_all_groups(), 'cpu', m.mesh[0]))(cube())",
    "(lambda m: DeviceMesh.from_group(m.get_all_groups(), 'cpu'))(cube())",
    "DeviceMesh.from_group([], 'cpu', torch.arange(3))",
    "cube().get_group()",
    "cube().get_group('d')",
    "cube().get_group('c')",
    "cube().get_group(-1)",
    "cube().get_all_groups()",
    "cube()['b'].get_group()",
    "cube()['b'].get_group('b')",
    "cube().get_local_rank()",
    "cube()['b'].get_local_rank()",
    "cube().get_local_rank('c')",
    "cube().get_local_rank('d')",
    "[cube().size(each) for each in (None, 0, 1, 2)]",
    "cube()._get_mesh_dim_by_name('c')",
    "cube()._get_mesh_dim_by_name('d')",
    "init_device_mesh('cpu', (3, 4))._get_mesh_dim_by_name('d')",
    "cube()['b']._get_root_mesh_dim()",
    "cube()['b', 'c']._get_root_mesh_dim()",
    "init_device_mesh('cpu', (12,))._get_root_mesh_dim()",
    "[each.mesh.tolist() for each in cube()._get_all_submeshes('b')]",
    "[each.mesh.tolist() for each in cube()['a', 'c']._get_all_submeshes('a')]",
    "pickle.loads(pickle.dumps(cube()['b', 'c']))",
    "pickle.loads(pickle.dumps(with_flat('a', 'b')))._flatten_mapping",
    "sorted(cube().__getstate__())",
    "[hash(cube()) == hash(cube()), hash(cube()['a', 'b']) == hash(cube()['a', 'b'])]",
    "[cube()._stable_hash(), cube()['a']._stable_hash()]",
    "[cube() == other for other in (cube(), cube()['a', 'b'], cube().mesh, 3)]",
    "[resources.get_root_mesh(cube()['b']), resources._get_all_submeshes(cube(), 'a')]",
    "resources.get_current_mesh()",
    "(lambda m: (m.__enter__(), resources.get_current_mesh(), m.__exit__(0, 0, 0)))(cube()['a'])",
    "(lambda m: (m.__enter__() is m, m.__exit__(0, 0, 0), len(resources.mesh_stack)))(cube())",
)
#: Ways of naming a group to a functional collective, some of which are none.
GROUPS = (
    *("[7, 0]", "[[0, 7], [10, 3]]", "[[0, 7], [3]]", "dist.group.WORLD", "'name'", "cube()", "cube()['b']"),
    *("(cube(), 1)", "(cube(),)", "(cube(), 1, 2)", "(cube(), 'b')", "(7, 0)", "7", "cube().get_group('b')"),
)
GROUP_EXPRESSIONS = tuple(
    f"functional.{name}({group}{more})"
    for name in ("_expand_group", "_resolve_group")
    for group in GROUPS
    for more in ("", ", 'tag'")
)
#: What they may name.
NAMES = {
    "torch": torch,
    "dist": dist,
    "functional": _functional_collectives,
    "pickle": pickle,
    "resources": device_mesh._mesh_resources,
    **{each.__name__: each for each in (DeviceMesh, init_device_mesh, cube, options, with_flat)},
}
#: Tests that they are spread over.
PARTS = 3


def described(value):
    """A mesh, a group, or an answer, in lines."""
    if isinstance(value, DeviceMesh):
        groups = ["none"]
        if hasattr(value, "_dim_group_names"):
            groups = (
                [described_group(each) for each in value.get_all_groups()] if value.get_coordinate() else []
            )
        root = value._get_root_mesh()
        return [
            f"{value!r} of {tuple(value.shape)}, {value.ndim} and {value.size()}, {value.device_type}",
            f"{value.mesh.tolist()} {value.mesh.dtype} {value.mesh.device} {value.mesh_dim_names}",
            f"at {value.get_coordinate()}, {value._is_current_rank_part_of_mesh()}, in {groups}",
            f"of {'itself' if root is value else repr(root)}, flat: {list(root._flatten_mapping)}",
        ]
    if isinstance(value, dist.ProcessGroup):
        return [described_group(value)]
    if isinstance(value, list | tuple):
        return [line for each in value for line in described(each)]
    if isinstance(value, dict):
        return [f"{name} {line}" for name, each in value.items() for line in described(each)]
    return [repr(value)]


def described_group(group):
    return f"{group.group_desc} {dist.get_process_group_ranks(group)}"


def answer(expression):
    """What an expression gives, the groups that are made for it, and what it warns of."""
    made = {}

    def noted_new_group(*, ranks, **how):
        given = dict(how)
        how["timeout"] = how["timeout"] and how["timeout"].seconds
        how["pg_options"] = type(how["pg_options"]).__name__
        words = " ".join(
            f"{name}={value}" for name, value in how.items() if value not in (None, False, "NoneType")
        )
        made.setdefault(words, []).append(ranks)
        return dist.new_group(ranks=ranks, **given)

    with (
        mock.patch.object(device_mesh, "new_group", noted_new_group),
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("always")
        try:
            found = described(eval(expression, NAMES))
        except REFUSALS as error:
            found = [f"{type(error).__name__}: {' '.join(map(str, error.args))}".splitlines()[0]]
    found += [f"made {words}: {ranks}" for words, ranks in made.items()]
    return [*found, *told_warnings(warned)]


def section(by_rank):
    """The lines of all ranks: once where they are the same, else each with its rank."""
    each = list(by_rank.values())
    if len({len(lines) for lines in each}) > 1:
        return [f"{rank}: {line}" for rank, lines in by_rank.items() for line in lines]
    found = []
    for lines in zip(*each, strict=True):
        if len(set(lines)) == 1:
            found.append(lines[0])
        else:
            found += [f"{rank}: {line}" for rank, line in zip(by_rank, lines, strict=True)]
    return found


@unittest.skipUnless(torch_at_least("2.13"), "the meshes are those of torch 2.13")
class MeshTablesTest(TestCase):
    """A rank after another."""

    def setUp(self):
        super().setUp()
        self.sections = accepted_sections(ACCEPTED)

    def check_part(self, part):
        self.check_all(EXPRESSIONS[part::PARTS])

    def check_all(self, expressions):
        for expression in expressions:
            by_rank = {}
            for rank in RANKS:
                with as_rank(rank):
                    by_rank[rank] = answer(expression)
            check_section(self, self.sections, expression, section(by_rank))

    def test_meshes(self):
        self.check_part(0)

    def test_meshes_of_a_second_part(self):
        self.check_part(1)

    def test_meshes_of_a_third_part(self):
        self.check_part(2)

    def test_names_of_groups(self):
        self.check_all(GROUP_EXPRESSIONS)

    def test_members_that_a_compiler_knows(self):
        """Which attributes of meshes and groups a compiler takes as constants, and which it looks into."""
        known = []

        def register(kind, *, members, guard_fn=None, **how):
            known.append(f"{kind.__name__} {sorted(how)} {how['typ']}")
            known.extend(f"{name} {member.name}" for name, member in members.items())
            if guard_fn is not None:
                known.append(
                    f"guarded: {guard_fn(init_device_mesh('cpu', (3, 4), mesh_dim_names=('x', 'y')))}"
                )

        with (
            as_rank(7),
            mock.patch.object(device_mesh, "_distributed_opaque_types_registered", False),
            mock.patch("torch._library.opaque_object.register_opaque_type", register),
        ):
            device_mesh._register_distributed_opaque_types()
        check_section(self, self.sections, "members that a compiler knows", known)


if __name__ == "__main__":
    run_tests()
