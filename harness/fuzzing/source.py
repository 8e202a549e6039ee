"""Writes a program as a stand-alone script that needs torch only, for a bug report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.fuzzing import reference
from harness.fuzzing.mutation import Mutation, interpreted
from harness.fuzzing.program import (
    ARGUMENTS,
    IN_PLACE,
    OBJECTS,
    REDUCING,
    CollectiveStep,
    Meeting,
    Message,
    Program,
    Regroup,
    Step,
)
from harness.fuzzing.reference import LABELS, LIST, TERMS, Array, Interpretation, interpret
from harness.fuzzing.schedule import EXPIRES, SEND, RankAction, schedule
from harness.fuzzing.script import cuts, framed

#: The most numbers of a tensor that the script compares; it leaves out the rest of a larger one.
WRITTEN = 64


def source_of(
    program: Program,
    backend: str = "gloo",
    mutation: Mutation | None = None,
    device_type: str = "cpu",
    plugin: str = "",
) -> str:
    """The text of a script that runs a program on its own ranks and fails if a tensor is wrong.

    Of a large tensor it compares the first ``WRITTEN`` numbers only, with a ``mutation`` none. ``plugin`` is
    the module that registers the backend or the device.
    """
    lines = [f"    groups = {{{', '.join(_groups(program))}}}"]
    if mutation is not None:
        lines += [f"    # {mutation.text(program)}", *_mutated_body(program, mutation)]
    else:
        lines += _right_body(program)
    return framed(program, lines, backend, device_type, plugin)


def _right_body(program: Program) -> list[str]:
    known = interpret(program)
    lines = [*_body(program, known)]
    for number, step in enumerate(program.steps):
        expected = {rank: known.results[number, rank] for rank in range(program.world_size)
                    if (number, rank) in known.results}  # fmt: skip
        if expected and not isinstance(step, Meeting):
            lines += _checks(number, step, expected)
    if cuts(program):
        lines += ["    for each in kept:"]
        lines += ["        assert (each == 1).all(), f'rank {rank}: around tensors: {each}'"]
    return lines


def _mutated_body(program: Program, mutation: Mutation) -> Iterator[str]:
    """The calls of the mutated rank, which take no earlier outputs, and then those of the others."""
    steps = tuple(replace(s, takes=None) if isinstance(s, CollectiveStep) else s for s in program.steps)
    own = replace(program, steps=steps)
    known = interpreted(program, mutation)
    yield f"    if rank == {mutation.rank}:"
    yield "        pass"
    for action in mutation.actions(program, mutation.rank):
        step = mutation.steps(own)[action.number]
        if action.part == EXPIRES and isinstance(step, CollectiveStep) and mutation.rank != step.missing:
            yield f"        {_here(action.number)}"
            continue
        yield from (f"        {line}" for line in _lines(own, known, action, [mutation.rank], step))
    yield from _body(program, known, but=mutation.rank)


def _groups(program: Program) -> Iterator[str]:
    everyone = tuple(range(program.world_size))
    for group in program.groups:
        made = "dist.group.WORLD" if group == everyone else f"dist.new_group({list(group)})"
        yield f"{group}: {made}"


def _body(program: Program, known: Interpretation, but: int | None = None) -> Iterator[str]:
    doers: dict[RankAction, list[int]] = {}
    for rank in range(program.world_size):
        if rank == but:
            continue
        for action in schedule(program, rank):
            doers.setdefault(action, []).append(rank)
    for action in sorted(doers):
        yield f"    if rank in {_tuple(doers[action])}:"
        yield from (
            f"        {line}"
            for line in _lines(program, known, action, doers[action], program.steps[action.number])
        )


def _lines(
    program: Program, known: Interpretation, action: RankAction, ranks: Sequence[int], step: Step
) -> Iterator[str]:
    number = action.number
    name = f"{number}{'s' if action.part == SEND else ''}"
    if isinstance(step, CollectiveStep) and action.part == EXPIRES:
        others = [f"{number}/{rank}" for rank in step.group if rank != step.missing]
        yield f"if rank == {step.missing}:"
        yield f"    store.wait({others})"
        yield "else:"
        yield f'    assert expired(work{name}), f"rank {{rank}} did not wait for rank {step.missing}"'
        yield f"    {_here(number)}"
        return
    if action.waits:
        yield f"work{name}.wait()"
    elif isinstance(step, CollectiveStep):
        yield from _collective(program, known, action, step, ranks)
    elif isinstance(step, Message):
        yield from _message(action, step, name)
    elif isinstance(step, Regroup):
        yield f"groups[{step.group}] = regroup({number}, {step.group}, rank, store)"
        return
    else:
        others = [f"{number}/{rank}" for rank in range(program.world_size) if rank != step.rank]
        yield f"store.wait({others}) if rank == {step.rank} else {_here(number)}"
        return
    if not action.later and action.part != SEND:  # copied at once: what arrives later came too late
        yield f"got{name} = [tensor.clone() for tensor in outputs{name}]"


def _here(number: int) -> str:
    """The call by which a rank says that it has come to a step."""
    return f'store.set(f"{number}/{{rank}}", "here")'


def _collective(
    program: Program, known: Interpretation, action: RankAction, step: CollectiveStep, ranks: Sequence[int]
) -> Iterator[str]:
    n, dtype = action.number, f"torch.{step.dtype}"
    members = {rank: step.group.index(rank) for rank in ranks}
    values = TERMS if step.kind in REDUCING else LABELS
    inputs = {rank: list(reference.input_shapes(step, member)) for rank, member in members.items()}
    outputs = {rank: list(reference.output_shapes(step, member)) for rank, member in members.items()}
    yield f"shapes = {inputs}[rank]"
    yield f"inputs{n} = [fill({n}, rank, p, shape, {dtype}, {values}) for p, shape in enumerate(shapes)]"
    takers = []
    if step.takes is not None:
        takers = [r for r in ranks if reference.taken(program, n, r, known.results) is not None]
    if takers:
        yield f"if rank in {_tuple(takers)}:"
        yield f"    inputs{n} = [got{step.takes}[0].clone()]"
    if step.kind in OBJECTS:
        yield from _objects(n, step, members)
        return
    gaps = ", gaps=True" if step.gaps else ""
    if step.views:
        yield f"inputs{n} = cut(inputs{n}{gaps})"
    if step.kind in IN_PLACE:
        yield f"outputs{n} = inputs{n}"
    else:
        zeros = f"[torch.zeros(shape, dtype={dtype}) for shape in {outputs}[rank]]"
        yield f"outputs{n} = {f'cut({zeros}{gaps})' if step.views else zeros}"
    if step.managed:
        yield from _managed(n, step, later=action.later)
        return
    splits = {rank: reference.splits(step, member) for rank, member in members.items()}
    written = {
        "input": f"inputs{n}[0]",
        "inputs": f"inputs{n} or None",
        "output": f"outputs{n}[0]",
        "outputs": f"outputs{n} or None",
        "output_lists": f"[outputs{n}[i : i + 2] for i in range(0, len(outputs{n}), 2)]",
        "op": f"dist.ReduceOp.{step.op.upper()}",
        "root": str(step.group[step.root]),
        "rows_received": f"{ {rank: received for rank, (received, _) in splits.items()} }[rank]",
        "rows_sent": f"{ {rank: sent for rank, (_, sent) in splits.items()} }[rank]",
    }
    arguments = [written[name] for name in ARGUMENTS[step.kind]]
    arguments += [f"group=groups[{step.group}]", f"async_op={action.later}"]
    yield f"work{n} = dist.{step.kind}({', '.join(arguments)})"


def _managed(n: int, step: CollectiveStep, *, later: bool) -> Iterator[str]:
    """Several calls that torch makes one of."""
    group = f"groups[{step.group}]"
    written = {"input": "given", "output": "output", "op": f"dist.ReduceOp.{step.op.upper()}"}
    arguments = ", ".join(written[name] for name in ARGUMENTS[step.kind])
    yield f"with dist.distributed_c10d._coalescing_manager({group}, async_ops={later}) as work{n}:"
    yield f"    for given, output in zip(inputs{n}, outputs{n}):"
    yield f"        dist.{step.kind}({arguments}, group={group})"


def _objects(n: int, step: CollectiveStep, members: Mapping[int, int]) -> Iterator[str]:
    """The call of an object collective: an object is the shape and the numbers of a tensor."""
    counts = {rank: reference.objects_received(step, member) for rank, member in members.items()}
    root = step.group[step.root]
    yield f"inputs{n} = [(tuple(each.shape), each.flatten().tolist()) for each in inputs{n}]"
    yield f"outputs{n} = [None] * {counts}[rank]"
    if step.kind in IN_PLACE:
        yield f"outputs{n} = inputs{n} = inputs{n} if rank == {root} else outputs{n}"
    written = {"input": f"inputs{n}[0]", "inputs": f"inputs{n} or None"}
    written |= {"outputs": f"outputs{n} or None", "root": str(root)}
    arguments = ", ".join(written[name] for name in ARGUMENTS[step.kind])
    yield f"dist.{step.kind}({arguments}, group=groups[{step.group}])"
    made = f"torch.tensor(numbers, dtype=torch.{step.dtype}).reshape(shape)"
    yield f"outputs{n} = [{made} for shape, numbers in outputs{n}]"


def _message(action: RankAction, step: Message, name: str) -> Iterator[str]:
    dtype = f"torch.{step.dtype}"
    if step.objects:
        yield from _listed(action.number, step, sends=action.part == SEND)
        return
    how = f"group=groups[{step.group}], tag={step.tag}"
    later = "i" if action.later else ""
    if action.part == SEND:
        filled = f"fill({action.number}, rank, {step.target}, {step.shape}, {dtype}, {LABELS})"
        yield f"sent{name} = {f'cut([{filled}])[0]' if step.views else filled}"
        yield f"work{name} = dist.{later}send(sent{name}, {step.target}, {how})"
    else:
        zeros = f"[torch.zeros({step.shape}, dtype={dtype})]"
        yield f"outputs{name} = {f'cut({zeros})' if step.views else zeros}"
        yield f"work{name} = dist.{later}recv(outputs{name}[0], {step.source}, {how})"


def _listed(n: int, step: Message, *, sends: bool) -> Iterator[str]:
    """The call that sends or receives a list of objects."""
    shapes, dtype = reference.message_shapes(step), f"torch.{step.dtype}"
    if sends:
        part = f"{step.target} + {LIST} * p"
        filled = f"fill({n}, rank, {part}, shape, {dtype}, {LABELS}) for p, shape in enumerate({shapes})"
        yield f"sent{n}s = [(tuple(each.shape), each.flatten().tolist()) for each in ({filled})]"
        yield f"dist.send_object_list(sent{n}s, {step.target}, group=groups[{step.group}])"
    else:
        yield f"outputs{n} = [None] * {len(shapes)}"
        yield f"dist.recv_object_list(outputs{n}, {step.source}, group=groups[{step.group}])"
        made = f"torch.tensor(numbers, dtype={dtype}).reshape(shape)"
        yield f"outputs{n} = [{made} for shape, numbers in outputs{n}]"


def _checks(
    number: int, step: CollectiveStep | Message, expected: Mapping[int, Sequence[Array]]
) -> Iterator[str]:
    numbers = {rank: [_numbers(array) for array in arrays] for rank, arrays in expected.items()}
    yield f"    expected = {numbers}"
    yield "    if rank in expected:"
    yield f"        check({number}, rank, got{number}, expected[rank], {reference.rounding(step)})"


def _numbers(array: Array) -> list[Any]:
    flat: list[Any] = array.reshape(-1)[:WRITTEN].tolist()
    return flat


def _tuple(ranks: Iterable[int]) -> str:
    return str(tuple(ranks))
