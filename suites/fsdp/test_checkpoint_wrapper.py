"""Wrapped modules that are computed again in the backward: names, states, arguments, how often they run.

Which modules of a model are wrapped is in ``test_wrapping``; checkpointing under FSDP in ``test_fully_shard``
and ``test_fsdp1``.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch._dynamo  # (a checkpoint imports it at its first call, in every worker anew)
from torch import nn
from torch.distributed.algorithms._checkpoint import checkpoint_wrapper as module
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    checkpoint_wrapper,
    offload_wrapper,
)

from harness import TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)

WAYS = (CheckpointImpl.NO_REENTRANT, CheckpointImpl.REENTRANT)


class Scaled(nn.Module):
    """Notes at each run whether gradients are recorded, and takes tensors and others by place and by name."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([2.0, 3.0]))
        self.register_buffer("shift", torch.tensor([1.0, 5.0]))
        self.runs = []

    def forward(self, rows, power=1, *, scale=None, negative=False):
        self.runs.append(torch.is_grad_enabled())
        out = rows**power * self.weight**2 + self.shift
        out = out if scale is None else out * scale
        return -out if negative else out


@contextlib.contextmanager
def noting(entered, word):
    """A context that notes a word when it is entered."""
    entered.append(word)
    yield


def pair():
    """Two modules in a row, the first of them wrapped in a wrapped row."""
    return nn.Sequential(
        checkpoint_wrapper(nn.Sequential(checkpoint_wrapper(Scaled()), nn.Linear(2, 2))), Scaled()
    )


class NamesTest(TestCase):
    """A wrapped module has the names that it has alone."""

    def setUp(self):
        super().setUp()
        self.plain = nn.Sequential(nn.Sequential(Scaled(), nn.Linear(2, 2)), Scaled())
        self.wrapped = pair()

    def test_parameters(self):
        names = [name for name, _ in self.plain.named_parameters()]
        inner = self.wrapped[0]
        self.assertEqual(
            [name for name, _ in inner.named_parameters()], [n[2:] for n in names if n[0] == "0"]
        )
        found = dict(inner.named_parameters("row"))
        self.assertIs(found["row.0.weight"], inner[0].weight)
        self.assertEqual(list(dict(inner.named_parameters(recurse=False))), [])
        self.assertEqual(list(dict(inner[0].named_parameters(recurse=False))), [])

    def test_states(self):
        """They are taken from either into either, whole and under a prefix."""
        state = self.plain.state_dict()
        self.assertEqual(list(self.wrapped.state_dict()), list(state))
        self.assertEqual(
            list(self.wrapped[0].state_dict(prefix="a.")), [f"a.{n[2:]}" for n in state if n[0] == "0"]
        )
        changed = {name: value + 1 for name, value in state.items()}
        for target in (self.wrapped, self.plain, pair()):
            missing, unexpected = target.load_state_dict(dict(changed))
            self.assertEqual((missing, unexpected), ([], []))
            self.assertEqual(target.state_dict(), changed)
        self.assertEqual(self.wrapped[0][0].weight, torch.tensor([3.0, 4.0]))
        del changed["0.0.weight"]
        missing, unexpected = self.wrapped.load_state_dict(
            {**changed, "0.more": state["1.weight"]}, strict=False
        )
        self.assertEqual(
            [
                [each.replace(module._CHECKPOINT_PREFIX, "") for each in names]
                for names in (missing, unexpected)
            ],
            [["0.0.weight"], ["0.more"]],
        )

    def test_attributes_and_items(self):
        wrapped = self.wrapped[0]
        self.assertIs(wrapped[0].runs, wrapped[0]._checkpoint_wrapped_module.runs)
        self.assertIs(wrapped[1], wrapped._checkpoint_wrapped_module[1])
        self.assertTrue(wrapped.training)
        with self.assertRaisesRegex(AttributeError, "'Sequential' object has no attribute 'nothing'"):
            getattr(wrapped, "nothing")  # noqa: B009  (it is read for its refusal)
        with self.assertRaisesRegex(AttributeError, "__getitem__"):
            wrapped[0][0]


class RunsTest(TestCase):
    """What a wrapped module computes, and how often."""

    def test_gradients(self):
        """Of rows, weight and tensors by name: as without a wrapper, by a second run in the backward."""
        for how in WAYS:
            for given in (
                {},
                {"power": 3},
                {"negative": True},
                {"scale": True},
                {"scale": True, "power": 2, "negative": True},
            ):
                found = []
                for wrap in (lambda each: each, lambda each, how=how: checkpoint_wrapper(each, how)):
                    rows = torch.tensor([[1.5, -2.0]], requires_grad=True)
                    scale = torch.tensor([4.0, 7.0], requires_grad=True)
                    named = {**given, "scale": scale} if "scale" in given else given
                    scaled = wrap(Scaled())
                    out = scaled(rows, **named)
                    first = list(scaled.runs)
                    out.backward(torch.tensor([[1.0, 10.0]]))
                    found.append(
                        (out.detach(), rows.grad, scaled.weight.grad, scale.grad, first, scaled.runs)
                    )
                with self.subTest(how=how, **given):
                    self.assertEqual(found[0][:4], found[1][:4])
                    self.assertEqual(found[0][4:], ([True], [True]))
                    reentrant = how is CheckpointImpl.REENTRANT
                    self.assertEqual(found[1][4:], ([not reentrant], [not reentrant, True]))

    def test_arguments_by_place(self):
        """The second of them by place, too."""
        for how in WAYS:
            rows = torch.tensor([3.0, 2.0], requires_grad=True)
            scaled = checkpoint_wrapper(Scaled(), checkpoint_impl=how)
            out = scaled(rows, 2, negative=True)
            self.assertEqual(out.detach(), torch.tensor([-37.0, -41.0]))
            out.sum().backward()
            self.assertEqual(rows.grad, torch.tensor([-24.0, -36.0]))

    def test_a_function_of_the_users_own(self):
        """It gets the module, what that is called with, and what the wrapper was made with."""
        asked = []

        def own(run, *args, **kwargs):
            asked.append((run, args, kwargs))
            return "done"

        for how in WAYS:
            scaled = Scaled()
            wrapped = checkpoint_wrapper(scaled, how, own, more=1)
            self.assertEqual(wrapped(2), "done")
            ((run, args, kwargs),) = asked
            self.assertEqual((args, kwargs), ((2,), {"more": 1}))
            self.assertIs(run, scaled)
            self.assertEqual(scaled.runs, [])
            asked.clear()
        wrapped = checkpoint_wrapper(scaled, checkpoint_fn=own, more=1)
        wrapped(2, power=3)
        self.assertEqual(asked[0][1:], ((2,), {"more": 1, "power": 3}))

    def test_options_reach_the_checkpoint(self):
        """Draws are the same again unless they are not to be kept; contexts are entered."""
        entered = []

        def contexts():
            return noting(entered, "first"), noting(entered, "again")

        drawing = nn.Dropout(0.5)
        rows = torch.ones(64, requires_grad=True)
        for options, same in (({}, True), ({"preserve_rng_state": False}, False)):
            for how in WAYS:
                out = checkpoint_wrapper(nn.Sequential(drawing, nn.Softplus(), drawing), how, **options)(rows)
                (slope,) = (
                    torch.autograd.grad(out.sum(), rows) if how is WAYS[0] else (self.slope(out, rows),)
                )
                with self.subTest(how=how, **options):
                    kept = out.detach() != 0
                    self.assertEqual(bool((slope[~kept] == 0).all()), same)
        out = checkpoint_wrapper(Scaled(), context_fn=contexts)(torch.ones(2, requires_grad=True))
        self.assertEqual(entered, ["first"])
        out.sum().backward()
        self.assertEqual(entered, ["first", "again"])

    def slope(self, out, rows):
        """The gradient of rows, by a backward: reentrant checkpoints know no other."""
        rows.grad = None
        out.sum().backward()
        return rows.grad

    def test_the_default_way(self):
        self.assertIs(checkpoint_wrapper(Scaled()).checkpoint_impl, CheckpointImpl.NO_REENTRANT)
        self.assertIs(checkpoint_wrapper(Scaled(), WAYS[1]).checkpoint_impl, CheckpointImpl.REENTRANT)

    def test_offloaded(self):
        """Saved tensors go through hooks that keep them on the CPU, in pinned memory."""
        seen = []
        wrapped = offload_wrapper(Scaled())
        with mock.patch.object(module, "save_on_cpu", lambda **options: noting(seen, options)):
            out = wrapped(torch.ones(2), 2, negative=True)
        self.assertEqual(out.detach(), torch.tensor([-5.0, -14.0]))
        self.assertEqual(seen, [{"pin_memory": True}])
        self.assertEqual(list(wrapped.state_dict()), ["weight", "shift"])


if __name__ == "__main__":
    run_tests()
