"""What is known of groups after they were made, found, left, aborted or shrunk: as ``groups.txt`` has it.

Each section of that file has a program as its name, which begins with no group. One process is rank 1 of 3 in
groups whose backends note what they are made with and told. A section that is not as torch has it is shown as
it would have to be.
"""

from __future__ import annotations

import contextlib
import io
import os
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
from torch.distributed import _functional_collectives as functional
from torch.distributed import distributed_c10d as c10d

from harness import MultiProcessTestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.accepted_sections import check_sections
from suites.c10d.noting import RANK, SIZE, TIMEOUT, Named
from suites.told_programs import told_warnings

ACCEPTED = Path(__file__).with_name("groups.txt")
REFUSALS = (ValueError, RuntimeError, AssertionError, KeyError, TypeError, IndexError, AttributeError)


class Keys(dist.Store):
    """A store in this process, which notes the keys that are written."""

    def __init__(self):
        super().__init__()
        self.held, self.written = {}, []

    def set(self, key, value):
        self.written.append(key)
        self.held[key] = value

    def get(self, key):
        return self.held[key]

    def add(self, key, amount):
        total = int(self.held.get(key, b"0")) + amount
        self.set(key, str(total).encode())
        return total

    def wait(self, keys, timeout=None):
        missing = set(keys) - set(self.held)
        if missing:
            raise RuntimeError(f"nobody sets {missing}")

    def clone(self):
        return self


class Telling(Named):
    """Tells when it is shut down or aborted, and is its own backend, which can be shrunk."""

    told: list[str]
    supports_shrinking = True

    def shutdown(self):
        self.told.append(f"{self.group_name} is shut down")

    def abort(self):
        self.told.append(f"{self.group_name} is aborted")

    def _get_backend(self, device):
        if torch.device(device).type != "cpu":
            raise RuntimeError("no such device")
        return self

    def shrink(self, excluded, flags, options):
        self.told.append(f"{self.group_name} loses {excluded}, {flags}, {options}")
        ranks = [rank for rank in range(self.size()) if rank not in excluded]
        options = FakeProcessGroup.Options()
        return FakeProcessGroup._create_internal(ranks.index(self.rank()), len(ranks), options)


class Making(Telling):
    """Makes the groups of its ranks itself."""

    def new_group(self, ranks, timeout, pg_options, group_name, group_desc):
        self.told.append(f"asked for {ranks}, {timeout}, {pg_options}, {group_name}, {group_desc}")
        if self.rank() not in ranks:
            return None
        group = Telling(ranks.index(self.rank()), len(ranks))
        group.setGroupName(group_name)
        group.told = self.told
        return group


@unittest.skipUnless(torch_at_least("2.13"), "the groups are those of torch 2.13")
class GroupStatesTest(MultiProcessTestCase):
    """A program after another."""

    rank_modes = ("fresh",)  # a backend that is registered stays so
    world_size = 1

    def setUpRank(self):
        super().setUpRank()
        self.told = []
        for name, cls in (("telling", Telling), ("making", Making)):
            dist.Backend.register_backend(name, self.creator(name, cls), devices=["cpu"])
        for name, devices in (("extended", ["cpu", "cuda"]), ("other", ["cpu"])):
            dist.Backend.register_backend(name, self.extended_creator(name), True, devices)

    def creator(self, name, cls):
        def create(store, rank, size, timeout):
            self.told.append(f"{name} is made at {self.place(store)}, {rank} of {size}, {timeout}")
            group = cls(rank, size)
            group.told = self.told
            return group

        return create

    def extended_creator(self, name):
        def create(given, options):
            self.told.append(
                f"{name} is made at {self.place(given.store)}, {given.group_rank} of {given.group_size}, "
                f"{given.timeout}, {given.group_id}, {given.global_ranks_in_group}, {options}"
            )
            options = FakeProcessGroup.Options()
            options._timeout = given.timeout
            return FakeProcessGroup._create_internal(given.group_rank, given.group_size, options)

        return create

    def place(self, store):
        """Where a key of a store stands in the one below all."""
        store.set("k", "")
        return self.keys.written.pop()

    def start(self, backend="telling", rank=RANK, size=SIZE, **how):
        how = {"timeout": TIMEOUT, "store": self.keys, **how}
        dist.init_process_group(backend, rank=rank, world_size=size, **how)

    def known(self):
        """What torch knows of each group, in lines."""
        world = c10d._world
        yield f"default {world.default_pg and world.pg_names.get(world.default_pg)}, {world.group_count} made"
        for group, (backend, store) in world.pg_map.items():
            tags = [tag for tag, groups in world.tags_to_pg.items() if group in groups]
            names = world.pg_names[group], group.group_name
            yield (
                f"{' and '.join(sorted(set(names)))}, {group.group_desc}: {backend}, "
                f"{world.pg_backend_config[group]}, {world.pg_group_ranks.get(group)}, "
                f"{world.pg_to_tag[group]!r} of {tags}, in {self.place(store)}"
            )
            if not isinstance(group, Named):
                yield f"{group.rank()} of {group.size()}, {group.name()}, {list(self.devices(group))}"
        empty = [tag for tag, groups in world.tags_to_pg.items() if not groups]
        others = set(world.pg_group_ranks) - set(world.pg_map)
        yield f"empty tags {empty}, ranks of {len(others)} others, registered {self.registered()}"

    def devices(self, group):
        for device in ("cpu", "cuda"):
            with contextlib.suppress(RuntimeError):
                options = group._get_backend(torch.device(device)).options
                of_gloo = (
                    getattr(options, "global_ranks_in_group", None),
                    getattr(options, "group_name", None),
                )
                yield f"{device} {type(options).__qualname__} {options._timeout} {of_gloo}"

    def registered(self):
        """The names of groups that are resolved, of those that have been seen."""
        self.names.update(c10d._world.pg_names.values())
        found = []
        for name in sorted(self.names):
            with contextlib.suppress(RuntimeError, ValueError, KeyError):
                c10d._resolve_process_group(name)
                found.append(name)
        return found

    def excepted(self):
        """What a hook for exceptions writes of one that has two lines."""
        with contextlib.redirect_stderr(io.StringIO()) as written:
            sys.excepthook(ValueError, ValueError("one\n\nmore"), None)
        self.told += written.getvalue().split("\n")

    def answer(self, program):
        """What a program has told, and what is known after it."""
        self.told.clear()
        self.keys, self.names = Keys(), set()
        c10d._world.group_count = 0  # where the last one failed, too
        names = {
            **vars(self),
            "dist": dist,
            "c10d": c10d,
            "functional": functional,
            "torch": torch,
            "os": os,
            "start": self.start,
            "excepted": self.excepted,
            "seen": self.registered,
            "seconds": lambda number: timedelta(seconds=number),
            "new": dist.new_group,
            "mock": mock,
            "tagged": c10d._new_group_with_tag,
            "end": dist.destroy_process_group,
            "abort": c10d._abort_process_group,
        }
        with (
            warnings.catch_warnings(record=True) as warned,
            mock.patch.object(sys, "excepthook", lambda *it: print(it[1], file=sys.stderr)),
            mock.patch.dict(os.environ),
        ):
            warnings.simplefilter("always")
            try:
                exec(program, names)
            except REFUSALS as error:
                first, *_ = str(error).split("\n")
                self.told.append(f"{type(error).__name__}: {first}")
            lines = [
                *map(str, self.told),
                *told_warnings(warned),
            ]
        lines += self.known()
        if self.keys.written:
            lines.append(f"writes {self.keys.written}")
        if dist.is_initialized():
            dist.destroy_process_group()
        return lines

    def test_programs(self):
        check_sections(self, ACCEPTED, self.answer)


if __name__ == "__main__":
    run_tests()
