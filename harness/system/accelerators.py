"""Tells which accelerators this process has used, without torch where nobody has imported it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# Device types that torch has a module for. That of PrivateUse1 has the name that its maker gave it.
_KINDS = ("cuda", "xpu", "hpu", "mtia")
# Those whose runtime a process may have started without a context, by counting devices.
_COUNTED_BY_RUNTIME = ("cuda", "xpu")
# Where a machine has a file for each GPU: NVIDIA's, ROCm's, and the one of Windows Subsystem for Linux.
DEVICES = Path("/dev")
_GPU_FILES = re.compile(r"nvidia\d+|kfd|dxg")
# How the files begin that a runtime opens for itself.
DEVICE_FILES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/dxg")
# Has torch.cuda.is_available() ask NVML, so that a process which has asked can still be forked. Source:
# torch's documentation, "Poison fork in multiprocessing".
_COUNT_WITHOUT_RUNTIME = "PYTORCH_NVML_BASED_CUDA_CHECK"


def has_gpu(devices: Path = DEVICES) -> bool:
    """Whether this machine has files of a GPU that torch calls cuda. Uses no device, and no torch."""
    try:
        return any(_GPU_FILES.fullmatch(name) for name in os.listdir(devices))
    except OSError:
        return False


def keep_forkable(environ: Mapping[str, str], devices: Path = DEVICES) -> dict[str, str]:
    """What an environment lacks for its processes to count GPUs and yet be forked; nothing without GPUs."""
    if _COUNT_WITHOUT_RUNTIME in environ or not has_gpu(devices):
        return {}
    return {_COUNT_WITHOUT_RUNTIME: "1"}


def questions_for_a_fork(devices: Path = DEVICES) -> list[Callable[[], bool]]:
    """What a fork of this process can ask torch: whether it is cut off from its parent's accelerators.

    None where torch is not imported, or no accelerator is there.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    kinds = [*(_COUNTED_BY_RUNTIME if has_gpu(devices) else ()), _private(torch)]
    modules: list[Any] = [getattr(torch, kind, None) for kind in kinds]
    return [module._is_in_bad_fork for module in modules if hasattr(module, "_is_in_bad_fork")]


def in_use() -> dict[str, Any]:
    """The device types that this process has a context of, with torch's modules for them (``torch.cuda``)."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    modules = {kind: getattr(torch, kind, None) for kind in (*_KINDS, _private(torch))}
    return {
        kind: module
        for kind, module in modules.items()
        if module is not None and hasattr(module, "is_initialized") and module.is_initialized()
    }


def _private(torch: Any) -> str:
    """The device type of PrivateUse1; "privateuseone" where nobody has made one."""
    ask = getattr(getattr(torch, "_C", None), "_get_privateuse1_backend_name", None)
    return str(ask()) if ask else ""
