"""Finds out the facts of this machine: its devices, backends, versions, memory and importable modules.

Among the files of this package, only this one imports torch to look at the machine. Nothing here except
`multicast_here` creates an accelerator context, so the process can still fork: devices are counted as
`torch.cuda.device_count()` does it (NVML, amdsmi, Level Zero sysman; pytorch/pytorch#83973,
pytorch/pytorch#85951), and architectures are read from sysfs.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import environment as process_environment
from harness.requirements.machine import MachineFacts
from harness.system import control_group, gpu_count
from harness.system.accelerators import has_gpu

# Variables that change what a probe finds: after a change of one the machine is probed again.
DEVICE_ENVIRONMENT = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "HABANA_VISIBLE_DEVICES",
    "PYTORCH_TEST_WITH_ROCM",
)
KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")
MIB = 1024 * 1024


def probe() -> MachineFacts:
    """The facts of this machine and torch build, probed once in a process for each set of visible devices.

    Imports torch on its first call, and raises what that import raises; `probe_system` imports nothing.
    """
    return _probe(tuple(map(process_environment.environment().get, DEVICE_ENVIRONMENT)))


@functools.cache
def probe_system() -> MachineFacts:
    """The operating system and the memory of this machine, without what torch knows about it.

    The other fields have their defaults: they are for requirements that do not need torch.
    """
    return MachineFacts(platform=sys.platform, memory_mb=_memory_mb())


def count_before_forks() -> None:
    """Has torch know how many GPUs there are, in a process that is to be forked and must not count them.

    Imports torch on a machine with GPUs, and does nothing on others.
    """
    if has_gpu():
        import torch

        gpu_count.tell(torch)


def probe_modules(facts: MachineFacts, modules: Iterable[str]) -> MachineFacts:
    """`facts` with a note for each module whether it can be found. Imports none of them."""
    return replace(facts, modules=tuple((module, module_is_there(module)) for module in modules))


def module_is_there(module: str) -> bool:
    """Whether the top-level package of the module can be found, without importing it."""
    top = module.partition(".")[0]
    if top in sys.modules:
        return sys.modules[top] is not None  # None is how an import is blocked
    return importlib.util.find_spec(top) is not None


def module_imports(module: str, names: Iterable[str] = ()) -> bool:
    """Whether the module can be imported and has these names. Imports it, so only the test's process asks."""
    try:
        loaded = importlib.import_module(module)
        return all(hasattr(loaded, name) for name in names)
    except ImportError:
        return False


def multicast_here() -> bool:
    """Whether CUDA device 0 can multicast. Initialises CUDA, so that forked children cannot use it."""
    import torch

    if not torch.cuda.is_available():
        return False
    from torch._C._autograd import DeviceType
    from torch._C._distributed_c10d import _SymmetricMemory

    return bool(_SymmetricMemory.has_multicast_support(DeviceType.CUDA, 0))


@functools.cache
def _probe(environment: tuple[str | None, ...]) -> MachineFacts:
    import torch

    accelerators = _accelerators(torch)
    backends = _backends(torch, accelerators)
    hip = torch.version.hip
    return replace(
        probe_system(),
        accelerators=tuple(accelerators.items()),
        backends=backends,
        nccl_version=_nccl_version() if "nccl" in backends and "cuda" in accelerators else None,
        rocm=hip is not None or os.environ.get("PYTORCH_TEST_WITH_ROCM") == "1",
        rocm_version=parse_version(hip) if hip else None,
        rocm_arch=rocm_arch(KFD_NODES) if hip else None,
    )


def _accelerators(torch: Any) -> dict[str, int]:
    current = torch.accelerator.current_accelerator()
    kinds = dict.fromkeys(("cuda", "xpu", "hpu", *((current.type,) if current else ())))
    counts = {kind: _device_count(getattr(torch, kind, None)) for kind in kinds}
    if counts.get("mps") and not torch.backends.mps.is_available():
        counts["mps"] = 0
    return {kind: count for kind, count in counts.items() if count > 0}


def _device_count(module: Any) -> int:
    count = getattr(module, "device_count", None)
    return 0 if count is None else int(count())


def _backends(torch: Any, accelerators: dict[str, int]) -> frozenset[str]:
    if not torch.distributed.is_available():
        return frozenset()
    known = [name for name in torch.distributed.Backend.backend_list if name != "undefined"]
    found = {name.lower() for name in known if torch.distributed.is_backend_available(name)}
    return frozenset(found | ({"hccl"} if "hpu" in accelerators else set()))


def _nccl_version() -> tuple[int, ...]:
    from torch.cuda import nccl

    return tuple(part for part in nccl.version() if isinstance(part, int))


def parse_version(text: str) -> tuple[int, ...]:
    """The leading whole numbers between dots: "6.3.42134-a9a80e791" gives (6, 3, 42134)."""
    numbers = []
    for part in text.partition("-")[0].split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)


def rocm_arch(nodes: Path) -> str | None:
    """The architecture of the first GPU that the kernel driver lists, such as "gfx942"; None without a GPU.

    The driver writes major * 10000 + minor * 100 + stepping; in the name, minor and stepping are hex digits.
    """
    for properties in sorted(nodes.glob("*/properties"), key=lambda path: int(path.parent.name)):
        values = dict(line.split()[:2] for line in properties.read_text().splitlines() if " " in line.strip())
        target = int(values.get("gfx_target_version", 0))
        if target:
            return f"gfx{target // 10000}{target // 100 % 100:x}{target % 100:x}"
    return None


def _memory_mb() -> int | None:
    limit = control_group.memory_limit()
    limits = [limit] if limit is not None else []
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(limits) // MIB if limits else None
