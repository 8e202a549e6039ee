"""Groups of some of the ranks: who is in, what outsiders get, how roots are named, and that groups overlap.

What the collectives do inside of a group is in ``test_collectives`` (SubGroup classes) and its siblings.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.c10d import reference
from suites.c10d.base import declares, instantiate_world_sizes
from suites.c10d.inputs import Case

CASE = Case()
#: Since torch 2.13 these are other names of newer functions, under which they are warned about.
NEW_NAMES = {
    old: new
    for old, new in {
        "all_gather_into_tensor": "all_gather_single",
        "reduce_scatter_tensor": "reduce_scatter_single",
    }.items()
    if hasattr(dist, new)
}


class Membership:
    """Who is in a group, and by which rank."""

    def test_new_group(self):
        members = list(range(1, self.world_size))
        group = dist.new_group(members, backend=self.backend)
        inside = self.rank in members
        self.assertEqual(dist.get_rank(group), self.rank - 1 if inside else -1)
        self.assertEqual(dist.get_world_size(group), len(members) if inside else -1)
        self.assertEqual(dist.get_process_group_ranks(group), members)
        self.assertEqual([dist.get_group_rank(group, rank) for rank in members], list(range(len(members))))
        self.assertEqual([dist.get_global_rank(group, rank) for rank in range(len(members))], members)

    def test_new_group_of_everybody(self):
        group = dist.new_group(backend=self.backend)
        self.assertIsNot(group, dist.group.WORLD)
        self.assertEqual((dist.get_rank(group), dist.get_world_size(group)), (self.rank, self.world_size))

    def test_new_group_sorts_its_ranks(self):
        group = dist.new_group(list(reversed(range(self.world_size))), backend=self.backend)
        self.assertEqual(dist.get_process_group_ranks(group), list(range(self.world_size)))
        self.assertEqual(dist.get_rank(group), self.rank)

    def test_ranks_that_are_not_in_it(self):
        group = dist.new_group([1], backend=self.backend)
        self.assertEqual(dist.get_group_rank(group, 1), 0)
        self.assertEqual(dist.get_global_rank(group, 0), 1)
        with self.refused(ValueError, "Global rank 0 is not part of group"):
            dist.get_group_rank(group, 0)
        with self.refused(ValueError, "Group rank 1 is not part of group"):
            dist.get_global_rank(group, 1)


class Outsiders:
    """Ranks that call a collective of a group that they are not in: warned, given None, and left alone."""

    def calls(self, group):
        """Return every collective on ``group``, with root 0, by name: functions of (tensor, async_op)."""
        names = dir(dist)

        def call(name, *arguments):
            def run(tensor, async_op):
                parts = [tensor if argument is Ellipsis else argument for argument in arguments]
                return getattr(dist, name)(*parts, group=group, async_op=async_op)

            return {name: run} if name in names else {}

        one = [torch.zeros(2, device=self.device)]
        return {
            **call("broadcast", ..., 0),
            **call("all_reduce", ...),
            **call("reduce", ..., 0),
            **call("all_gather", one, ...),
            **call("all_gather_into_tensor", one[0], ...),
            **call("all_gather_single", one[0], ...),
            **call("gather", ..., one if self.rank == 0 else None, 0),
            **call("scatter", ..., one if self.rank == 0 else None, 0),
            **call("reduce_scatter", ..., one),
            **call("reduce_scatter_tensor", ..., one[0]),
            **call("reduce_scatter_single", ..., one[0]),
            **(call("all_to_all", one, one) if declares("all_to_all") else {}),
            **call("all_to_all_single", one[0], ...),
            **self.coalesced_calls(group, one),
        }

    def coalesced_calls(self, group, one):
        """Return the calls on lists of tensors that the target declares."""
        calls = {
            "all_reduce_coalesced": lambda tensor, async_op: dist.all_reduce_coalesced(
                [tensor], group=group, async_op=async_op
            ),
            "all_gather_coalesced": lambda tensor, async_op: dist.all_gather_coalesced(
                [one], [tensor], group=group, async_op=async_op
            ),
        }
        return {name: call for name, call in calls.items() if declares(name)}

    def check_outside(self, async_op):
        group = dist.new_group([0], backend=self.backend)
        for name, call in self.calls(group).items():
            with self.subTest(collective=name):
                tensor = torch.tensor([1.5, 2.5], device=self.device)
                if self.rank == 0:
                    work = call(tensor, async_op)
                    self.assertEqual(work is None, not async_op)
                    if work is not None:
                        work.wait()
                    continue
                with self.warned_as_outsider(NEW_NAMES.get(name, name)):
                    self.assertIsNone(call(tensor, async_op))
                self.assertEqual(tensor, torch.tensor([1.5, 2.5]))

    def test_warn_not_in_group(self):
        self.check_outside(async_op=False)

    def test_warn_not_in_group_async(self):
        self.check_outside(async_op=True)

    def test_point_to_point(self):
        group = dist.new_group([0], backend=self.backend)
        tensor = torch.zeros(2, device=self.device)
        if self.rank == 0:
            return
        with self.warned_as_outsider("isend"):
            self.assertIsNone(dist.isend(tensor, group=group, group_dst=0))
        with self.warned_as_outsider("irecv"):
            self.assertIsNone(dist.irecv(tensor, group=group, group_src=0))
        with self.warned_as_outsider("irecv"):
            self.assertEqual(dist.recv(tensor, group=group, group_src=0), -1)


class Roots:
    """How the root of a collective is named in a group whose ranks are one less than the global ones."""

    def prepare(self):
        self.inside = list(range(1, self.world_size))
        self.tail = dist.new_group(self.inside, backend=self.backend)
        self.held = {rank: CASE.label(rank) for rank in self.inside}

    def test_global_rank(self):
        for src in reversed(self.inside):
            if self.rank in self.inside:
                tensor = self.on_device(CASE, self.held[self.rank])
                dist.broadcast(tensor, src, group=self.tail)
                self.check(CASE, tensor, self.held[src])

    def test_group_src(self):
        for src in reversed(range(len(self.inside))):
            if self.rank in self.inside:
                tensor = self.on_device(CASE, self.held[self.rank])
                dist.broadcast(tensor, group=self.tail, group_src=src)
                self.check(CASE, tensor, self.held[self.inside[src]])
                sent = [self.on_device(CASE, CASE.label(src, part)) for part in range(len(self.inside))]
                output = CASE.blank(self.device)
                dist.scatter(output, sent if self.rank - 1 == src else None, group=self.tail, group_src=src)
                self.check(CASE, output, CASE.label(src, self.rank - 1))

    def test_group_dst(self):
        terms = [CASE.term("sum", member) for member in range(len(self.inside))]
        for dst in range(len(self.inside)):
            if self.rank in self.inside:
                tensor = self.on_device(CASE, terms[self.rank - 1])
                outputs = [CASE.blank(self.device) for _ in self.inside] if self.rank - 1 == dst else None
                dist.gather(tensor, outputs, group=self.tail, group_dst=dst)
                dist.reduce(tensor, group=self.tail, group_dst=dst)
                if self.rank - 1 == dst:
                    self.check(CASE, outputs, terms)
                    self.check(CASE, tensor, reference.combine(terms, "sum"))

    def test_root_outside_of_the_group(self):
        if self.rank not in self.inside:
            return
        tensor = CASE.blank(self.device)
        for name in ("broadcast", "reduce", "gather", "scatter"):
            collective = getattr(dist, name)
            arguments = (tensor, None, 0) if name in ("gather", "scatter") else (tensor, 0)
            with self.refused(ValueError, "Global rank 0 is not part of group", collective=name):
                collective(*arguments, group=self.tail)

    def test_root_named_twice_or_not_at_all(self):
        tensor = CASE.blank(self.device)
        with self.refused(ValueError, "Can't specify both group_rank and global_rank"):
            dist.broadcast(tensor, 0, group_src=0)
        with self.refused(ValueError, "Can't specify both group_rank and global_rank"):
            dist.reduce(tensor, 0, group_dst=0)
        with self.refused(ValueError, "Must specify global_rank or group_rank"):
            dist.broadcast(tensor)


class Overlaps:
    """Groups that share ranks."""

    def test_neighbours(self):
        # A group for each pair of neighbours on a ring, every rank in two; each sums by itself.
        pairs = [(rank, rank + 1) for rank in range(self.world_size - 1)]
        groups = {pair: dist.new_group(list(pair), backend=self.backend) for pair in pairs}
        for turn, pair in enumerate(pairs):
            if self.rank in pair:
                self.come_last(pair[1], f"pair {turn}", pair)
                terms = [CASE.term("sum", rank, turn) for rank in pair]
                tensor = self.on_device(CASE, CASE.term("sum", self.rank, turn))
                dist.all_reduce(tensor, group=groups[pair])
                self.check(CASE, tensor, reference.combine(terms, "sum"))

    def test_destroying_a_group_leaves_the_others(self):
        group = dist.new_group(backend=self.backend)
        tensor = torch.ones(1, device=self.device)
        dist.all_reduce(tensor, group=group)
        self.assertEqual(tensor.item(), self.world_size)
        dist.destroy_process_group(group)
        with self.refused(ValueError, "is not registered"):
            dist.get_group_rank(group, 0)
        self.check_group_works()

    def test_new_subgroups(self):
        own, groups = dist.new_subgroups(group_size=1)
        self.assertEqual(len(groups), self.world_size)
        self.assertEqual(dist.get_process_group_ranks(own), [self.rank])
        whole, groups = dist.new_subgroups(group_size=self.world_size)
        self.assertEqual(len(groups), 1)
        self.assertEqual(dist.get_process_group_ranks(whole), list(self.everyone))
        self.come_last(self.members[-1], "grouped", self.members)
        terms = [CASE.term("sum", rank) for rank in self.everyone]
        tensor = self.on_device(CASE, terms[self.rank])
        dist.all_reduce(tensor, group=whole)
        self.check(CASE, tensor, reference.combine(terms, "sum"))

    def test_new_subgroups_group_size_exceeds_world_size(self):
        with self.refused(ValueError, "must not exceed"):
            dist.new_subgroups(group_size=self.world_size + 1)

    def test_new_subgroups_overlap_not_allowed(self):
        with self.refused(ValueError, "Rank 1 has appeared in both subgroup"):
            dist.new_subgroups_by_enumeration(ranks_per_subgroup_list=[[0, 1], [1]])


class SubGroupLists:
    """Many groups by one call: what it makes of sizes and lists that do not fit the world."""

    def test_by_enumeration(self):
        # The first and the last rank, and those between them.
        lists = [[0, self.world_size - 1], list(range(1, self.world_size - 1))]
        own, groups = dist.new_subgroups_by_enumeration(lists)
        self.assertEqual(len(groups), 2)  # a rank knows the ranks of its own groups, and of one of the others
        (mine,) = (ranks for ranks in lists if self.rank in ranks)
        self.assertEqual(dist.get_process_group_ranks(own), mine)
        expected = reference.combine([CASE.term("sum", rank) for rank in mine], "sum")
        tensor = self.on_device(CASE, CASE.term("sum", self.rank))
        self.come_last(mine[-1], "grouped", mine)
        dist.all_reduce(tensor, group=own)
        self.check(CASE, tensor, expected)

    def test_descriptions(self):
        """What a group is told about itself it says, however it is made."""
        self.assertEqual(dist.group.WORLD.group_desc, "default_pg")
        pairs = [[rank] for rank in self.everyone]
        for made in (
            lambda desc: dist.new_group(group_desc=desc),
            lambda desc: dist.new_subgroups(group_size=1, group_desc=desc)[0],
            lambda desc: dist.new_subgroups_by_enumeration(pairs, group_desc=desc)[0],
        ):
            group = made("tensor parallel")
            self.assertEqual(group.group_desc, "tensor parallel")
            members = list(self.everyone) if group.size() > 1 else [self.rank]
            self.assertEqual(dist.get_process_group_ranks(group), members)
            self.assertEqual(made(None).group_desc, "undefined")

    def test_new_subgroups_world_size_not_divisible_by_group_size(self):
        with self.refused(ValueError, f"The world size ({self.world_size}) must be divisible by"):
            dist.new_subgroups(group_size=self.world_size - 1)

    def test_new_subgroups_group_size_not_positive(self):
        for size in (0, -1):
            with self.refused(ValueError, f"The arg 'group_size' ({size}) must be positive", size=size):
                dist.new_subgroups(group_size=size)

    def test_new_subgroups_of_as_many_as_devices(self):
        """Where there is none to count, a caller has to say how many."""
        if not torch.cuda.is_available():
            with self.refused(ValueError, "Default group size only takes effect when CUDA is available"):
                dist.new_subgroups()

    def check_no_such_rank(self, lists):
        with self.assertRaisesRegex(ValueError, "is out of range|should be within the world_size"):
            dist.new_subgroups_by_enumeration(lists)
        self.check_group_works()

    def test_new_subgroups_by_enumeration_input_rank_exceeds_world_size(self):
        self.check_no_such_rank([[0, self.world_size]])

    def test_new_subgroups_by_enumeration_negative_input_rank(self):
        self.check_no_such_rank([[-1, 1]])

    def test_new_subgroups_by_enumeration_of_nothing(self):
        with self.refused(ValueError, "The arg 'ranks_per_subgroup_list' cannot be empty"):
            dist.new_subgroups_by_enumeration([])


instantiate_world_sizes(globals(), Membership, Outsiders, Roots, Overlaps)
instantiate_world_sizes(globals(), SubGroupLists, sizes=(3, 4))


if __name__ == "__main__":
    run_tests()
