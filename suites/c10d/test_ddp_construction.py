"""What DDP makes its reducer with, by its options, and what it copies from the first rank. No ranks.

One process is a rank of a group that moves nothing; what the reducer gets is noted on its way there.
"""

from __future__ import annotations

import contextlib
import sys
import unittest
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.testing._internal.distributed.fake_pg import FakeStore

from harness import TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least

MB = 1024 * 1024
#: Bytes of the bucket that is reduced first, where nobody says how large buckets are.
FIRST = dist._DEFAULT_FIRST_BUCKET_BYTES
#: What a reducer takes, in this order.
TAKEN = "parameters buckets limits group sparse cap unused view names first skip python rebuilding batched"


class Model(nn.Module):
    """Six parameters, a sparse one and a frozen one among them, and two buffers."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(3, 2, sparse=True)
        self.one = nn.Linear(2, 2)
        self.norm = nn.BatchNorm1d(2)
        self.other = nn.Linear(2, 2, bias=False)
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)


TRAINED = ["table.weight", "one.weight", "one.bias", "norm.weight", "norm.bias", "other.weight"]


@unittest.skipUnless(torch_at_least("2.13"), "before torch 2.13 a reducer takes other arguments")
class DdpConstructionTest(TestCase):
    """Rank 1 of two."""

    def setUp(self):
        super().setUp()
        dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
        self.addCleanup(dist.destroy_process_group)
        self.made, self.copied = [], []

    def wrapped(self, model=None, **options):
        """A model in DDP, with notes of its reducer and of what was copied in ``self``."""
        reducer, coalesced = dist.Reducer, dist._broadcast_coalesced

        def make(*arguments):
            self.made.append(dict(zip(TAKEN.split(), arguments, strict=True)))
            return reducer(*arguments)

        def copy(group, tensors, size, source):
            self.copied.append((group, list(tensors), size, source))
            return coalesced(group, tensors, size, source)

        with contextlib.ExitStack() as patches:
            for name, stand_in in (("Reducer", make), ("_broadcast_coalesced", copy)):
                patches.enter_context(mock.patch.object(dist, name, stand_in))
            return DDP(Model() if model is None else model, **options)

    def test_by_options(self):
        """Each option reaches the reducer, and the rest is as without it."""
        group = dist.new_group([0, 1])
        usual = {
            "sparse": [True] + [False] * 5,
            "cap": 25 * MB,
            "unused": False,
            "view": False,
            "first": FIRST,
            "skip": False,
            "python": False,
            "batched": False,
            "names": dict(enumerate(TRAINED)),
            "group": dist.group.WORLD,
        }
        for options, changed in (
            ({}, {}),
            ({"bucket_cap_mb": 3}, {"cap": 3 * MB, "first": 3 * MB}),
            ({"bucket_cap_mb_list": [2, 5, 1]}, {"cap": 5 * MB, "first": 5 * MB}),
            ({"find_unused_parameters": True}, {"unused": True}),
            ({"gradient_as_bucket_view": True}, {"view": True}),
            ({"skip_all_reduce_unused_params": True}, {"skip": True}),
            ({"process_group": group}, {"group": group}),
            ({"static_graph": True}, {}),
        ):
            with self.subTest(**{name: str(value) for name, value in options.items()}):
                self.made.clear()
                model = self.wrapped(**options)
                (found,) = self.made
                self.assertEqual({name: found[name] for name in usual}, {**usual, **changed})
                named = dict(model.module.named_parameters())
                for each, name in zip(found["parameters"], TRAINED, strict=True):
                    self.assertIs(each, named[name])
                self.assertEqual(len(found["buckets"]), len(found["limits"]))

    def test_buckets(self):
        """The first is what is made last; without knowing the order of the graph there is one."""
        layers = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(4)))  # of 1 MB each
        one = [[0, 1, 2, 3]], [sys.maxsize], []
        for options, *expected in (
            ({}, *one),
            ({"bucket_cap_mb": 2}, *one),
            ({"static_graph": True}, *one),
            ({"static_graph": True, "find_unused_parameters": True}, *one),
            ({"bucket_cap_mb": 2, "find_unused_parameters": True}, [[2, 3], [0, 1]], [2 * MB] * 2, []),
            ({"find_unused_parameters": True}, [[1, 2, 3], [0]], [25 * MB, FIRST], []),
            ({"bucket_cap_mb_list": [1, 3]}, [[1, 2, 3], [0]], [3 * MB, MB], [MB, 3 * MB]),
        ):
            with self.subTest(**options):
                self.made.clear()
                self.wrapped(layers, **options)
                (found,) = self.made
                self.assertEqual([found[name] for name in ("buckets", "limits", "rebuilding")], expected)

    def test_what_is_copied(self):
        """Parameters, frozen ones too, and buffers, of the group's first rank; none that is ignored."""
        for options, expected in (
            ({}, True),
            ({"init_sync": False}, False),
        ):
            self.copied.clear()
            model = self.wrapped(**options)
            if not expected:
                self.assertEqual(self.copied, [])
                continue
            ((group, tensors, size, source),) = self.copied
            self.assertEqual((group, size, source), (dist.group.WORLD, 250 * MB, 0))
            wanted = [*model.module.parameters(), *model.module.buffers()]
            self.assertEqual({each.data_ptr() for each in tensors}, {each.data_ptr() for each in wanted})
            self.assertEqual(len(tensors), len(wanted))

    def test_ignored(self):
        """They are not in the reducer, are not copied, and keep their names."""
        plain = Model()
        DDP._set_params_and_buffers_to_ignore_for_model(plain, ["one.weight", "norm.running_mean"])
        self.wrapped(plain)
        (found,) = self.made
        names = [name for name in TRAINED if name != "one.weight"]
        self.assertEqual(found["names"], dict(enumerate(names)))
        ((_, tensors, _, _),) = self.copied
        copied = {each.data_ptr() for each in tensors}
        self.assertNotIn(plain.one.weight.data_ptr(), copied)
        self.assertNotIn(plain.norm.running_mean.data_ptr(), copied)
        self.assertIn(plain.norm.running_var.data_ptr(), copied)

    def test_refusals(self):
        """Of options that go together and came alone, or are too many."""
        weight, both = nn.Parameter(torch.ones(2)), "need to be set at the same time"
        mesh = init_device_mesh("cpu", (2,))
        for error, words, options in (
            (ValueError, both, {"delay_all_reduce_named_params": [("x", weight)]}),
            (ValueError, both, {"param_to_hook_all_reduce": weight}),
            (RuntimeError, "Cannot specify both", {"process_group": dist.group.WORLD, "device_mesh": mesh}),
            (RuntimeError, "Only 1D device mesh", {"device_mesh": init_device_mesh("cpu", (1, 2))}),
            (ValueError, "contain a single element", {"device_ids": [0, 1]}),
            (ValueError, "only work with single-device", {"device_ids": [0]}),
            (RuntimeError, "any parameter that requires", {"model": nn.Linear(2, 2).requires_grad_(False)}),
            (RuntimeError, "uninitialized parameters", {"model": nn.LazyLinear(2)}),
        ):
            with self.subTest(words, **{name: str(value) for name, value in options.items()}):
                self.assertRaisesRegex(error, words, self.wrapped, **options)

    def test_logged(self):
        """What DDP says about itself."""
        data = self.wrapped(bucket_cap_mb=3, find_unused_parameters=True)._get_ddp_logging_data()
        for name, value in {
            "module_name": "Model",
            "world_size": 2,
            "rank": 1,
            "bucket_cap_bytes": 3 * MB,
            "find_unused_parameters": 1,
            "broadcast_buffers": 1,
            "gradient_as_bucket_view": 0,
            "has_sync_bn": 0,
            "num_parameter_tensors": 6,
            "total_parameter_size_bytes": 4 * (6 + 4 + 2 + 2 + 2 + 4),
            "dtypes": "float",
            "iteration": 0,
        }.items():
            self.assertEqual(data[name], value, name)
        with self.assertRaisesRegex(ValueError, "SyncBatchNorm layers only work with GPU modules"):
            self.wrapped(nn.SyncBatchNorm(2))


if __name__ == "__main__":
    run_tests()
