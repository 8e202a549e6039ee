"""The text around the calls of a script: what it imports, how it fills and cuts tensors, how its ranks start.

``source`` writes the calls, which stand in the function that is every rank's.
"""

from __future__ import annotations

from collections.abc import Iterable

from harness.fuzzing.program import CollectiveStep, Meeting, Program, Regroup
from harness.fuzzing.reference import MARGIN
from harness.fuzzing.schedule import EXPIRES_S

_HEAD = """\
import datetime
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
PLUGIN

def fill(step, rank, part, shape, dtype, values):
    numbers = (torch.arange(torch.Size(shape).numel()) + 31 * rank + 8 * part + 3 * step) % values + 1
    numbers = numbers.reshape(shape)
    if dtype == torch.bool:
        return numbers % 2 == 1
    return (numbers * (1 - 2j) if dtype.is_complex else numbers).to(dtype)

CUT
def check(step, rank, got, expected, rtol):
    for tensor, numbers in zip(got, expected, strict=True):
        start = tensor.flatten()[: len(numbers)]
        right = torch.tensor(numbers, dtype=tensor.dtype)
        assert torch.allclose(start, right, rtol, 0), f"step {step}, rank {rank}: {start} for {right}"


def main(rank, path):
DEVICE    store = dist.FileStore(path, WORLD_SIZE)
    group = dist.PrefixStore("group", store)
    dist.init_process_group("BACKEND", store=group, rank=rank, world_size=WORLD_SIZE)
"""
_CUT = f"""\

kept = []  # what is all 1 and must stay so


def cut(tensors, gaps=False):
    if not tensors:
        return tensors
    margin = torch.ones({MARGIN}, dtype=tensors[0].dtype)
    buffer = torch.cat([margin, *(tensor.flatten() for tensor in tensors), margin])
    if gaps:
        buffer, between = torch.stack([buffer, torch.ones_like(buffer)], 1).unbind(1)
        kept.append(between)
    kept.extend([buffer[:{MARGIN}], buffer[-{MARGIN}:]])
    parts = buffer[{MARGIN}:-{MARGIN}].split([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors)]

"""
_REGROUP = """\

made = {}


def regroup(number, ranks, rank, store):
    before, made[ranks] = made.get(ranks), dist.new_group(list(ranks))
    if rank in ranks:
        store.set(f"{number}/{rank}", "here")
        store.wait([f"{number}/{other}" for other in ranks])
        if before is not None:
            dist.destroy_process_group(before)
    return made[ranks]

"""
_EXPIRED = """\

def expired(work):
    try:
        work.wait(datetime.timedelta(seconds=EXPIRES_S))
    except RuntimeError as error:
        assert "timed out" in str(error), error
        return True
    return False

"""
_ON_DEVICE = """\
    device = rank % torch.get_device_module("DEVICE").device_count()
    torch.get_device_module("DEVICE").set_device(device)
    torch.set_default_device(f"DEVICE:{device}")
"""
_TAIL = """\
    dist.barrier()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "store")
        torch.multiprocessing.start_processes(main, (path,), nprocs=WORLD_SIZE, start_method="fork")
"""


def framed(program: Program, lines: Iterable[str], backend: str, device_type: str, plugin: str) -> str:
    """The whole text of a script, whose ranks do what ``lines`` say; see ``source.source_of``."""
    text = "".join(f"{line}\n" for line in lines)
    imported = f"import {plugin}  # registers the backend\n" if plugin else ""
    placed = "" if device_type == "cpu" else _ON_DEVICE.replace("DEVICE", device_type)
    regroups = any(isinstance(step, Regroup) for step in program.steps)
    misses = any(isinstance(step, CollectiveStep) and step.missing is not None for step in program.steps)
    expired = _EXPIRED.replace("EXPIRES_S", str(EXPIRES_S))
    helpers = (_CUT if cuts(program) else "") + (_REGROUP if regroups else "") + (expired if misses else "")
    head = _HEAD.replace("CUT\n", helpers or "\n").replace("DEVICE", placed)
    head = head.replace("PLUGIN\n", f"{imported}\n")
    whole = head + text + _TAIL
    return whole.replace("WORLD_SIZE", str(program.world_size)).replace("BACKEND", backend)


def cuts(program: Program) -> bool:
    """Whether a program has tensors that are cut from a larger one, so that there is ``cut`` and ``kept``."""
    return any(not isinstance(step, Meeting) and step.views for step in program.steps)
