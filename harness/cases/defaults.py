"""Decides the default world size, device type and backend of a case: by this machine, or the run's target."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from harness.environment import environment
from harness.requirements import probe
from harness.settings import target_given
from harness.system import accelerators, originals
from harness.targets import Target, current

if TYPE_CHECKING:
    import torch

# Upstream's number of ranks: enough for a 2 x 2 mesh.
WORLD_SIZE = 4
# Ranks of a test with one rank per accelerator on a machine without any: the fewest that can differ.
FEWEST_RANKS = 2


def world_size() -> int:
    """The world size of a ``MultiProcessTestCase``: 4, or the number of GPUs where that is 2 or 3.

    One GPU counts as two. This is upstream's default.
    """
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    # is_available would start CUDA's runtime, after which this process could not be forked.
    found = int(cuda.device_count()) if cuda is not None else 0
    return min(WORLD_SIZE, max(2, found)) if found else WORLD_SIZE


def rank_per_accelerator() -> int:
    """The world size of a compiler's or FSDP's test: one rank per accelerator, 2 without any.

    Two, too, on a single accelerator that a target has several ranks on.
    """
    _, count = accelerator()
    return max(count, min(FEWEST_RANKS, most_ranks())) or FEWEST_RANKS


def num_devices() -> int:
    """The world size of a DTensor test: 4, or the number of devices where that is 2 or 3.

    Source: ``NUM_DEVICES`` of upstream's ``common_dtensor``.
    """
    _, count = accelerator()
    most = min(WORLD_SIZE, max(2, count)) if probe().rocm else WORLD_SIZE
    return min(most, count) if count > 1 else most


def accelerator() -> tuple[str, int]:
    """The (device type, number of devices) that distributed tests can use; ("cpu", 0) without any.

    Of a run that asks for a target they are the target's.
    """
    target = _asked_for()
    if target is None:
        return probe().accelerator()
    return ("cpu", 0) if target.device_type == "cpu" else (target.device_type, target.device_count())


def most_ranks() -> int:
    """How many ranks the accelerators have room for: one each, or more where the run's target says so."""
    target = _asked_for()
    _, count = accelerator()
    return target.most_ranks() if target is not None and count else count


def device_type_for(world_size: int) -> str:
    """The accelerator's type where there is one device for each rank, else ``"cpu"``.

    A run that asks for a target never tests anything else in its place.
    """
    target = _asked_for()
    if target is not None:
        return target.device_type
    kind, count = accelerator()
    return kind if count >= world_size else "cpu"


def backend_for(device_type: str) -> str:
    """torch's default backend for a device type (gloo for the CPU, nccl for CUDA), or the run's target's."""
    target = _asked_for()
    if target is not None and target.device_type == device_type:
        return target.backend
    import torch.distributed as dist

    return str(dist.get_default_backend_for_device(device_type))


def use_device(rank: int) -> None:
    """Makes an accelerator this rank's own, the target's or the machine's: those of a host in turn."""
    target = _asked_for()
    if target is not None:
        target.set_device(rank % max(1, target.device_count()))
        return
    import torch

    torch.accelerator.set_device_index(rank % max(1, torch.accelerator.device_count()))


def device_of(rank: int, device_type: str) -> torch.device:
    """Where a rank's tensors of a device type live: an accelerator, those of its host in turn, or the CPU."""
    import torch

    target = _asked_for()
    if target is not None and target.device_type == device_type:
        return target.device(rank)
    if device_type == "cpu":
        return torch.device("cpu")
    return torch.device(device_type, rank % max(1, torch.get_device_module(device_type).device_count()))


@originals.harness_code
def await_devices() -> None:
    """Returns when the accelerators that this rank has used are done; raises what has failed on them."""
    used = accelerators.in_use()
    if not used:
        return
    target = _asked_for()
    for kind, module in used.items():
        if target is not None and target.device_type == kind:
            target.synchronize()
        else:
            module.synchronize()


def _asked_for() -> Target | None:
    """The target that the run names; None where it names none, and the machine decides."""
    return current() if target_given(environment()) else None
