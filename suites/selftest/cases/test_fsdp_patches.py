"""Tests the replacements of what FSDP calls, and the comparison of shards with a replicated module."""

from __future__ import annotations

import copy
import functools
import unittest
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp._fully_shard import _fsdp_param_group as group

import harness
from harness import MLP, FSDPTest, FSDPTestMultiThread, check_sharded_parity, get_devtype
from harness.models.fsdp import all_gather_name, reduce_scatter_name


def step(model: Any) -> None:
    """A forward and a backward on rows of ones."""
    model(torch.ones(2, 8, device=get_devtype())).sum().backward()


def counted(original: Callable[..., Any], calls: list[str], name: str) -> Callable[..., Any]:
    """The function, which notes its calls."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        return original(*args, **kwargs)

    return call


class PatchesTest(FSDPTest):
    """On two fresh ranks."""

    world_size = 2

    def test_each_is_called_and_put_back(self) -> None:
        """FSDP2 calls each replacement in a step, and the original is there again afterwards."""
        parameters = group.FSDPParamGroup
        for patch, owner, name in (
            ("patch_all_gather", dist, all_gather_name()),
            ("patch_reduce_scatter", dist, reduce_scatter_name()),
            ("patch_foreach_all_gather", group, "foreach_all_gather"),
            ("patch_foreach_reduce", group, "foreach_reduce"),
            ("patch_unshard", parameters, "unshard"),
            ("patch_reshard", parameters, "reshard"),
            ("patch_post_backward", parameters, "post_backward"),
            (
                "patch_register_post_backward_hook_backward",
                group.RegisterPostBackwardFunction,
                "backward",
            ),
        ):
            with self.subTest(patch):
                model, calls = fully_shard(MLP(8, device=get_devtype())), list[str]()
                original, stored = getattr(owner, name), vars(owner)[name]
                with getattr(harness, patch)(counted(original, calls, name)):
                    x = torch.ones(2, 8, device=get_devtype(), requires_grad=True)
                    model(x).sum().backward()
                self.assertIn(name, calls)
                self.assertIs(vars(owner)[name], stored)

    def test_all_reduce(self) -> None:
        """The original is put back where the region raises, without waiting for other ranks."""
        original = dist.all_reduce
        with self.assertRaises(ZeroDivisionError), harness.patch_all_reduce(print):
            self.assertIs(dist.all_reduce, print)
            raise ZeroDivisionError
        self.assertIs(dist.all_reduce, original)

    def test_output_is_looked_at(self) -> None:
        """A check of the reduce-scatter's output sees each one, by position or by name."""
        seen: list[Tensor] = []
        for args, kwargs in (((torch.ones(1),), {}), ((), {"output": torch.zeros(1)})):
            harness.reduce_scatter_with_assert(None, lambda *a, **k: None, seen.append, *args, **kwargs)
        self.assertEqual([float(each) for each in seen], [1.0, 0.0])
        with self.assertRaisesRegex(AssertionError, "without an output"):
            harness.reduce_scatter_with_assert(None, print, seen.append)

    def test_parity(self) -> None:
        """Shards of equal modules are equal; one changed parameter or gradient is not."""
        whole = MLP(8, device=get_devtype())
        sharded = fully_shard(copy.deepcopy(whole))
        step(whole)
        with self.assertRaisesRegex(AssertionError, "has a gradient"):
            check_sharded_parity(self, whole, sharded)
        step(sharded)
        check_sharded_parity(self, whole, sharded)
        with torch.no_grad():
            whole.in_proj.weight.grad[:] += 1
        with self.assertRaisesRegex(AssertionError, "in_proj.weight's gradient"):
            check_sharded_parity(self, whole, sharded)


class ThreadsTest(FSDPTestMultiThread):
    """On two threads, which share what is replaced."""

    world_size = 2

    def test_original_is_put_back(self) -> None:
        model, calls = fully_shard(MLP(8)), list[str]()
        original = getattr(dist, all_gather_name())
        with harness.patch_all_gather(counted(original, calls, "gather")):
            step(model)
        self.assertEqual(calls, ["gather"])
        dist.barrier()
        self.assertIs(getattr(dist, all_gather_name()), original)


if __name__ == "__main__":
    unittest.main()
