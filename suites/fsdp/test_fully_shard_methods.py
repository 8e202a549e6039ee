"""FSDP2 beyond training steps: its methods, states, what is cast, and what is refused."""

from __future__ import annotations

import copy
import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from torch.distributed.tensor import DTensor

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from harness.targets import Capability, needs
from suites.fsdp import reference
from suites.fsdp.base import ROUNDED
from suites.fsdp.models import Block, Net
from suites.fsdp.plain_copy import PlainCopyTestCase


class FullyShardMethodsTest(PlainCopyTestCase):
    """Two ranks."""

    def whole(self, module, *, prefix=""):
        """Check that a module's own parameters are whole."""
        plain = dict(self.plain.named_parameters())
        for name, parameter in module.named_parameters(prefix=prefix):
            self.assertNotIsInstance(parameter, DTensor, name)
            self.assertEqual(parameter, plain[name], name)

    def sharded(self, module):
        """Check that a module's parameters are shards."""
        for name, parameter in module.named_parameters():
            self.assertIsInstance(parameter, DTensor, name)
            self.assertLess(parameter.to_local().numel(), parameter.numel(), name)

    def test_unshard_and_reshard(self):
        """A unit by itself, now or when its handle is waited for, any number of times."""
        model = self.made()
        block = model.blocks[1]
        for _ in range(2):
            self.assertIsNone(block.unshard())
            self.whole(block, prefix="blocks.1")
            self.assertIsNone(block.unshard())  # again is nothing
            self.whole(block, prefix="blocks.1")
            self.sharded(model.blocks[0])
            self.assertIsNone(block.reshard())
            self.sharded(block)
            handle = block.unshard(async_op=True)
            handle.wait()
            self.whole(block, prefix="blocks.1")
            handle.wait()  # again is nothing
            block.reshard()
            self.sharded(model)

    def test_reshard_after_forward_is_changed(self):
        """For the units below too, or for one alone."""
        model = self.made()
        rows = self.batch.of(self.rank).inputs
        for value, recurse, kept in (
            (False, True, [True, True]),
            (True, True, [False, False]),
            (False, False, [False, False]),
        ):
            model.set_reshard_after_forward(value, recurse=recurse)
            with torch.no_grad():
                self.assertEqual(model(rows), self.plain(rows))
            held = [not isinstance(block.up.weight, DTensor) for block in model.blocks]
            self.assertEqual(held, kept, (value, recurse))
            for block in model.blocks:
                block.reshard()
            model.reshard()

    def test_reshard_after_backward_is_changed(self):
        model = self.made()
        model.set_reshard_after_backward(False)
        self.backward(model)
        self.whole(model)
        model.set_reshard_after_backward(True, recurse=False)
        self.backward(model)
        self.sharded(nn.ModuleList([model.stem, model.head]))
        self.whole(model.blocks[0], prefix="blocks.0")
        model.set_reshard_after_backward(True)
        self.backward(model)
        self.sharded(model)
        for _ in range(3):
            self.backward_alone()
        self.check_gradients(model)

    def test_gradients_that_one_unit_keeps(self):
        """Without recursion synchronization is off for the root alone."""
        model = self.made()
        model.set_requires_gradient_sync(False, recurse=False)
        self.backward(model)
        self.backward_alone()
        self.assertIsNone(model.stem.weight.grad)
        rows = reference.row_shards({"": self.plain.blocks[0].up.weight.grad}, self.rank, 2)[""]
        self.assertEqual(model.blocks[0].up.weight.grad.to_local(), rows, **ROUNDED)
        model.set_requires_gradient_sync(True)
        self.backward(model)
        self.backward_alone()
        self.check_gradients(model)

    def test_prefetching_changes_no_number(self):
        model = self.made()
        blocks = list(model.blocks)
        model.set_modules_to_forward_prefetch(blocks)
        blocks[0].set_modules_to_forward_prefetch(blocks[1:])
        model.set_modules_to_backward_prefetch(blocks[::-1])
        blocks[1].set_modules_to_backward_prefetch(blocks[:1])
        for step in range(2):
            model.zero_grad()
            self.plain.zero_grad()
            loss = self.backward(model)
            self.backward_alone()
            with self.subTest(step=step):
                self.assertEqual(loss, reference.loss_of(self.plain, self.batch.of(self.rank)), **ROUNDED)
                self.check_gradients(model)

    def test_evaluation_between_steps(self):
        """A call without gradients between two steps, and one that no backward follows, leave none behind."""
        model = self.made()
        rows = self.batch.of(self.rank).inputs
        for step in range(2):
            model.zero_grad()
            self.plain.zero_grad()
            with torch.no_grad():
                self.assertEqual(model(rows), self.plain(rows), **ROUNDED)
            model(rows)
            self.backward(model)
            self.backward_alone()
            with self.subTest(step=step):
                self.check_gradients(model)

    def test_gradients_add_up_over_steps(self):
        model = self.made()
        for times in (1, 2, 3):
            self.backward(model)
            self.backward_alone()
            with self.subTest(times=times):
                self.check_gradients(model)

    def test_frozen_and_unused_parameters(self):
        """A frozen one has no gradient, nor has one that no output depends on; the others have theirs."""
        self.plain.head.bias.requires_grad_(False)
        self.plain.spare = nn.Linear(2, 2)
        model = self.made()
        for _ in range(2):
            self.backward(model)
            self.backward_alone()
        for name, parameter in model.named_parameters():
            without = name == "head.bias" or name.startswith("spare")
            self.assertIs(parameter.grad is None, without, name)
        for module in (model, self.plain):
            module.head.bias = None
            del module.spare
        self.check_gradients(model)

    @needs(Capability.FUNCTIONAL)
    def test_state(self):
        """A state holds shards; what is loaded counts in the next forward, and it does not in the other."""
        model, other = self.made(), self.fsdp2(Net(), Block)
        state = model.state_dict()
        plain = self.plain.state_dict()
        self.assertEqual(list(state), list(plain))
        for name, shard in state.items():
            self.assertEqual(shard.full_tensor(), plain[name], name)
        rows = self.batch.of(self.rank).inputs
        self.assertNotEqual(other(rows), self.plain(rows))
        other.load_state_dict(state)
        self.assertEqual(other(rows), self.plain(rows), **ROUNDED)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2)
        self.assertEqual(other(rows), self.plain(rows), **ROUNDED)

    def test_other_methods_than_forward(self):
        """A method that is registered finds whole parameters, and leaves shards."""

        class Scorer(Net):
            def score(self, x, *, times):
                return self(x).sum() * times + self.stem.weight.sum()

        torch.manual_seed(5)
        plain = Scorer().to(self.device)
        model = self.fsdp2(copy.deepcopy(plain), Block)
        register_fsdp_forward_method(model, "score")
        rows = self.batch.of(self.rank).inputs
        for _ in range(2):
            with torch.no_grad():
                self.assertEqual(model.score(rows, times=3), plain.score(rows, times=3), **ROUNDED)
            self.assertIsInstance(model.blocks[0].up.weight, DTensor)
        with self.assertRaisesRegex(ValueError, "does not have a method grade"):
            register_fsdp_forward_method(model, "grade")
        register_fsdp_forward_method(plain, "score")  # on a module that is not sharded nothing happens
        self.assertEqual(plain.score(rows, times=3), model.score(rows, times=3), **ROUNDED)

    def test_inputs_and_outputs_by_precision(self):
        """Floating tensors among the arguments are cast, others are not; none is where that is off."""
        seen = []

        class Sees(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(4))

            def forward(self, x, *, index, more):
                seen.append((x.dtype, index.dtype, more["y"].dtype, self.weight.dtype))
                return {"product": x * self.weight, "index": index}

        for casts in (True, False):
            policy = MixedPrecisionPolicy(
                torch.bfloat16, output_dtype=torch.float64, cast_forward_inputs=casts
            )
            model = self.fsdp2(Sees(), mp_policy=policy)
            seen.clear()
            found = model(torch.ones(4), index=torch.arange(4), more={"y": torch.ones(2)})
            given = torch.bfloat16 if casts else torch.float32
            self.assertEqual(seen, [(given, torch.int64, given, torch.bfloat16)])
            self.assertEqual((found["product"].dtype, found["index"].dtype), (torch.float64, torch.int64))
            model.reshard()
            self.assertEqual(model.weight.dtype, torch.float32)

    @unittest.skipUnless(torch_at_least("2.13"), "reset_iter_state is new in torch 2.13")
    def test_a_forward_that_raises(self):
        """The model is as it was after the state of the iteration is forgotten."""
        model = self.made()

        def broken(*_):
            raise ZeroDivisionError

        handle = model.blocks[1].register_forward_pre_hook(broken)
        with self.assertRaises(ZeroDivisionError):
            model(self.batch.of(self.rank).inputs)
        handle.remove()
        model.reset_iter_state()
        self.sharded(model)
        self.backward(model)
        self.backward_alone()
        self.check_gradients(model)

    def test_classes(self):
        """A sharded module keeps its class, its name and its attributes, and is an FSDPModule besides."""
        model = self.made()
        self.assertIsInstance(model, Net)
        self.assertIsInstance(model, FSDPModule)
        self.assertEqual(type(model).__name__, "FSDPNet")
        self.assertNotIsInstance(model.stem, FSDPModule)
        self.assertEqual(len(model.blocks), 2)
        with self.assertRaisesRegex(AssertionError, "FSDP does not support deepcopy"):
            copy.deepcopy(model)

    def test_refusals(self):
        table = {
            "ModuleList": (ValueError, lambda: fully_shard(nn.ModuleList([Block()]))),
            "more than 1 dimension|1D|2D|dimension": (
                ValueError,
                lambda: fully_shard(
                    Block(),
                    mesh=init_device_mesh(self.device_type, (1, 1, 2)),
                ),
            ),
        }
        for message, (kind, call) in table.items():
            with self.subTest(message), self.assertRaisesRegex(kind, message):
                call()
        model = self.made()
        with self.assertRaisesRegex(Exception, "(?i)already"):
            fully_shard(model)
        with torch.device("meta"):
            nowhere = Net()
        with self.assertRaisesRegex(RuntimeError, "materialized from meta device.*stem.weight"):
            fully_shard(nowhere)(self.batch.of(self.rank).inputs)


if __name__ == "__main__":
    run_tests()
