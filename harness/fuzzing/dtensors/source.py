"""Writes a DTensor program as a script that needs torch only, for a bug report."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from harness.fuzzing.dtensors import checks, placing
from harness.fuzzing.dtensors.program import DTensorProgram

_HEAD = """\
import tempfile
import warnings
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, init_device_mesh
"""
_MAIN = '''\
def redistribute(value, placements):
    return value.redistribute(placements=placements) if isinstance(value, DTensor) else value


def placed(whole, rank, mesh, placements):
    """A DTensor of which each rank holds its part, made without distribute_tensor()."""
    own = held(whole.detach(), rank, mesh.shape, placements)
    got = DTensor.from_local(own, mesh, placements, shape=whole.shape, stride=whole.stride())
    return got.requires_grad_(whole.requires_grad)


def run(inputs, backward):
    values = program(*inputs)
    if backward and loss_of(values) is not None:
        loss_of(values).backward()
    return values + [each.grad for each in inputs]


def main(rank, path):
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", store=dist.FileStore(path, WORLD), rank=rank, world_size=WORLD)
    mesh = init_device_mesh("cpu", MESH)
    plain = inputs()
    distributed = [placed(whole, rank, mesh, p) for whole, p in zip(inputs(), PLACEMENTS)]
    expected, found = run(plain, BACKWARD), []
    for name, got, right in zip(NAMES, run(distributed, BACKWARD), expected, strict=True):
        text = misfit(name, got, right)
        if not text and got is not None:
            whole, part = got.detach().full_tensor(), got.detach().to_local()
            text = difference(name, whole, part, right.detach(), rank, got)
        found += [text] if text else []
    dist.barrier()
    assert not found, found[0]
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.NamedTemporaryFile() as file:
        torch.multiprocessing.start_processes(main, (file.name,), nprocs=WORLD, start_method="fork")
'''


def source_of(program: DTensorProgram) -> str:
    """The text of a script that runs a program on its own ranks and fails if a tensor is wrong."""
    used: tuple[Callable[..., Any], ...] = (placing.cut, placing.part, placing.held, placing.numbers)
    used += (checks.close, checks.misfit, checks.difference, checks.loss_of)
    functions = map(inspect.getsource, used)
    values = _values(program)
    return "\n\n".join((_HEAD + values + "\n", program.source + "\n", _inputs(program), *functions, _MAIN))


def _values(program: DTensorProgram) -> str:
    gradients = [f"{name}.grad" for name in program.names[: len(program.inputs)]]
    placements = ", ".join(f"[{', '.join(each.placements)}]" for each in program.inputs)
    return (
        f"\nWORLD, MESH, BACKWARD = {program.world_size}, {program.mesh}, {program.backward}\n"
        f"NAMES = {[*program.names, *gradients]}\nPLACEMENTS = [{placements}]"
    )


def _inputs(program: DTensorProgram) -> str:
    lines = [
        f"        numbers({each.shape}, torch.{each.dtype}, {seed}).requires_grad_({each.grad}),"
        for seed, each in enumerate(program.inputs)
    ]
    return "\n".join(("def inputs():", "    return [", *lines, "    ]\n"))
