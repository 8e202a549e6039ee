"""Runs a program in one rank: makes its calls in order and compares every tensor with the reference.

Nothing is compared before the program has ended, so that a rank with a wrong tensor does not leave the other
ranks waiting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from harness.fuzzing import objects, reference
from harness.fuzzing.mutation import Mutation, interpreted
from harness.fuzzing.program import (
    ARGUMENTS,
    COMPLEX,
    FLOATS,
    IN_PLACE,
    OBJECTS,
    Call,
    CollectiveStep,
    Message,
    Program,
    Regroup,
)
from harness.fuzzing.reference import MARGIN, Array, Interpretation, interpret
from harness.fuzzing.schedule import ALL, EXPIRES, EXPIRES_S, SEND, RankAction, schedule

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

Tensors = Sequence[torch.Tensor]
#: Process groups by the tuple of their global ranks.
Groups = Mapping[tuple[int, ...], Any]


def run_program(
    program: Program,
    rank: int,
    groups: Groups,
    board: dist.Store,
    device: torch.device,
    mutation: Mutation | None = None,
) -> None:
    """Runs a program in this rank and checks the resulting tensors.

    ``groups`` has a process group for each of ``program.groups``. ``board`` is an empty store that all ranks
    share. Raises AssertionError, which names each tensor that differs from the reference. With a ``mutation``
    no tensor is checked: nobody knows what it should hold then.
    """
    if mutation is not None:
        run = _RankRun(program, rank, groups, board, device, interpreted(program, mutation), mutation)
        for action in mutation.actions(program, rank):
            run.act(action)
        return
    run = _RankRun(program, rank, groups, board, device, interpret(program))
    for action in schedule(program, rank):
        run.act(action)
    run.leave()
    wrong = [*run.differences()]
    if wrong:
        raise AssertionError("\n".join(wrong))


class _RankRun:
    """The state of one rank while it runs a program: its inputs, its pending calls, its results.

    A result is copied as soon as the call or the wait returns, so that data which arrives only later is seen
    to be missing.
    """

    def __init__(
        self,
        program: Program,
        rank: int,
        groups: Groups,
        board: dist.Store,
        device: torch.device,
        known: Interpretation,
        mutation: Mutation | None = None,
    ) -> None:
        self._program = program
        self._steps = program.steps if mutation is None else mutation.steps(program)
        self._takes = mutation is None or mutation.rank != rank
        self._rank = rank
        self._groups = dict(groups)
        self._made: dict[tuple[int, ...], Any] = {}
        self._board = board
        self._device = device
        self._known = known
        self._given: dict[int, Tensors] = {}
        self._got: dict[int, Tensors] = {}
        self._kept: dict[int, list[torch.Tensor]] = {}  # what is all 1 and must stay so, by step
        self._under_way: dict[tuple[int, str], tuple[Any, Tensors]] = {}
        self._early: list[int] = []  # steps of which a wait returned although a rank was missing

    def act(self, action: RankAction) -> None:
        """Performs one action: a call, a wait, or meeting the other ranks for a straggler."""
        step = self._steps[action.number]
        if action.waits:
            work, outputs = self._under_way.pop((action.number, action.part))
            work.wait()
        elif isinstance(step, CollectiveStep) and action.part == EXPIRES:
            self._expire(action.number, step)
            return
        elif isinstance(step, CollectiveStep):
            work, outputs = self._call(action, step)
        elif isinstance(step, Message):
            work, outputs = self._transfer(action, step)
        elif isinstance(step, Regroup):
            self._regroup(action.number, step.group)
            return
        else:
            self._meet(action.number, step.rank)
            return
        if action.later:
            self._under_way[action.number, action.part] = work, outputs
        elif action.part != SEND:
            self._got[action.number] = [tensor.clone() for tensor in outputs]

    def leave(self) -> None:
        """Destroys the groups that were made."""
        while self._made:
            destroyed(self._made.popitem()[1])

    def differences(self) -> list[str]:
        """One or more lines for each tensor that differs from the reference."""
        lines = [
            f"rank {self._rank} did not wait for the missing rank in step {number}, {self._steps[number]}"
            for number in self._early
        ]
        for what, held, known in (
            ("has got", self._got, self._known.results),
            ("has in its input", self._given, self._known.inputs),
        ):
            for number, tensors in sorted(held.items()):
                expected = known.get((number, self._rank))
                if expected is not None:
                    lines += self._compared(number, what, tensors, expected)
        for number, kept in sorted(self._kept.items()):
            if not all((part == 1).all() for part in kept):
                step = self._program.steps[number]
                lines.append(
                    f"rank {self._rank} has other values around the tensors of step {number}, {step}"
                )
        return lines

    def _compared(self, number: int, what: str, tensors: Tensors, expected: Sequence[Array]) -> list[str]:
        step = self._program.steps[number]
        assert isinstance(step, Call), "where ranks meet they hold nothing"
        right = [as_tensor(array, step.dtype, self._device) for array in expected]
        rounding = reference.rounding(step)
        return [
            f"rank {self._rank} {what} of step {number} (tensor {i}), {step}:\n  {one}\n  for\n  {other}"
            for i, (one, other) in enumerate(zip(tensors, right, strict=True))
            if not same(one, other, rounding)
        ]

    def _call(self, action: RankAction, step: CollectiveStep) -> tuple[Any, Tensors]:
        member = step.group.index(self._rank)
        arrays = self._known.inputs[action.number, self._rank]
        inputs = [as_tensor(array, step.dtype, self._device) for array in arrays]
        if self._takes and self._taken(action.number):
            assert step.takes is not None
            inputs = [self._got[step.takes][0].clone()]
        if step.kind in OBJECTS:
            found = objects.exchanged(step, self._rank, inputs, self._groups[step.group])
            return None, [tensor.to(self._device) for tensor in found]
        shapes = reference.output_shapes(step, member)
        dtype = getattr(torch, step.dtype)
        outputs = [torch.zeros(shape, dtype=dtype, device=self._device) for shape in shapes]
        inputs, outputs = (self._placed(action.number, step, tensors) for tensors in (inputs, outputs))
        if step.kind not in IN_PLACE:
            self._given[action.number] = inputs
        if step.managed:
            return self._managed(action, step, inputs, outputs or inputs)
        values = {
            "input": inputs[0] if inputs else None,
            "inputs": inputs or None,
            "output": outputs[0] if outputs else None,
            "outputs": outputs or None,
            "output_lists": [outputs[i : i + 2] for i in range(0, len(outputs), 2)],
            "op": getattr(dist.ReduceOp, step.op.upper()),
            "root": step.group[step.root],
            **dict(zip(("rows_received", "rows_sent"), reference.splits(step, member), strict=True)),
        }
        call = getattr(dist, step.kind)
        arguments = [values[name] for name in ARGUMENTS[step.kind]]
        work = call(*arguments, group=self._groups[step.group], async_op=action.later)
        return work, inputs if step.kind in IN_PLACE else outputs

    def _managed(
        self, action: RankAction, step: CollectiveStep, inputs: Tensors, outputs: Tensors
    ) -> tuple[Any, Tensors]:
        """Several calls that torch makes one of; its handle is the manager."""
        call, group = getattr(dist, step.kind), self._groups[step.group]
        with dist.distributed_c10d._coalescing_manager(group, async_ops=action.later) as work:
            for given, output in zip(inputs, outputs, strict=True):
                values = {"input": given, "output": output, "op": getattr(dist.ReduceOp, step.op.upper())}
                call(*[values[name] for name in ARGUMENTS[step.kind]], group=group)
        return work, outputs

    def _taken(self, number: int) -> bool:
        """Whether a step's input is the output of an earlier one."""
        return reference.taken(self._program, number, self._rank, self._known.results) is not None

    def _transfer(self, action: RankAction, step: Message) -> tuple[Any, Tensors]:
        group = self._groups[step.group]
        if action.part == SEND:
            arrays = self._known.inputs[action.number, self._rank]
            tensors = [as_tensor(array, step.dtype, self._device) for array in arrays]
            if step.objects:
                objects.sent(step, tensors, group)
                return None, []
            (tensor,) = self._placed(action.number, step, tensors)
            self._given[action.number] = [tensor]
            send = dist.isend if action.later else dist.send
            return send(tensor, step.target, group=group, tag=step.tag), [tensor]
        if step.objects:
            return None, [tensor.to(self._device) for tensor in objects.received(step, group)]
        empty = torch.zeros(step.shape, dtype=getattr(torch, step.dtype), device=self._device)
        (tensor,) = self._placed(action.number, step, [empty])
        receive = dist.irecv if action.later else dist.recv
        return receive(tensor, step.source, group=group, tag=step.tag), [tensor]

    def _placed(
        self, number: int, step: CollectiveStep | Message, tensors: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        """The tensors as they are, or cut from one buffer with a margin at both ends, maybe with gaps."""
        if not step.views or not tensors:
            return tensors
        margin = torch.ones(MARGIN, dtype=tensors[0].dtype, device=self._device)
        buffer = torch.cat([margin, *(tensor.flatten() for tensor in tensors), margin])
        kept = self._kept.setdefault(number, [])
        if isinstance(step, CollectiveStep) and step.gaps:
            buffer, between = torch.stack([buffer, torch.ones_like(buffer)], 1).unbind(1)
            kept.append(between)
        kept += [buffer[:MARGIN], buffer[-MARGIN:]]
        parts = buffer[MARGIN:-MARGIN].split([tensor.numel() for tensor in tensors])
        return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def _regroup(self, number: int, ranks: tuple[int, ...]) -> None:
        """Makes a group, and destroys the one before when all members have done with it."""
        before = self._made.get(ranks)
        self._groups[ranks] = self._made[ranks] = dist.new_group(list(ranks))
        if self._rank in ranks:
            self._board.set(f"{number}/{self._rank}", "here")
            self._await(number, ranks)
            if before is not None:
                destroyed(before)

    def _expire(self, number: int, step: CollectiveStep) -> None:
        """Waits until the timeout has passed, or, as the missing rank, until the others have done so."""
        if self._rank == step.missing:
            self._await(number, [rank for rank in step.group if rank != self._rank])
            return
        if (number, ALL) in self._under_way:  # else this rank is mutated, and has made another call or none
            work, _ = self._under_way[number, ALL]
            if not expired(work):
                self._early.append(number)
        self._board.set(f"{number}/{self._rank}", "here")

    def _meet(self, number: int, last: int) -> None:
        if self._rank != last:
            self._board.set(f"{number}/{self._rank}", "here")
        else:
            self._await(number, [rank for rank in range(self._program.world_size) if rank != last])

    def _await(self, number: int, ranks: Sequence[int]) -> None:
        for rank in ranks:
            self._board.get(f"{number}/{rank}")


def expired(work: Any) -> bool:
    """Whether a wait with a timeout ends by that."""
    try:
        work.wait(timedelta(seconds=EXPIRES_S))
    except RuntimeError as error:
        if "timed out" not in str(error):
            raise
        return True
    return False


def destroyed(group: Any) -> None:
    """Destroys a process group, where this rank is one of its members."""
    if group is not dist.GroupMember.NON_GROUP_MEMBER:
        dist.destroy_process_group(group)


def as_tensor(array: Array, dtype: str, device: torch.device) -> torch.Tensor:
    """A new tensor of ``dtype`` with an array's numbers, on ``device``."""
    return (
        torch.from_numpy(np.ascontiguousarray(array))
        .reshape(array.shape)
        .to(device, getattr(torch, dtype), copy=True)
    )


def same(one: torch.Tensor, other: torch.Tensor, rounding: float) -> bool:
    """Whether two tensors are equal in dtype, shape and, up to the relative error ``rounding``, numbers.

    With a ``rounding`` of 0, and for integers and booleans, the numbers have to be exactly equal.
    """
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if not rounding or one.dtype not in _INEXACT:
        return bool(torch.equal(one, other))
    return bool(torch.allclose(one, other, rtol=rounding, atol=0))


_INEXACT = tuple(getattr(torch, name) for name in (*FLOATS, *COMPLEX))
