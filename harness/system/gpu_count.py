"""Tells torch how many GPUs there are in a server, which is to be forked and so must not count them itself.

torch asks NVML (on ROCm amdsmi), or the runtime of CUDA where that does not answer. The runtime cuts off all
forks of the process from the GPUs. After NVML was asked a process was seen to be no longer clean, and its
forks to be refused by NVML (driver 580, H100). So a fork counts, and the server's torch finds the answer
where it keeps its own. Ranks count anew.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from harness.system.accelerators import DEVICES, has_gpu, keep_forkable
from harness.system.fork_safety import fork_keeps_devices, without_fork_warning

# An exit code is a number of GPUs up to this, or says that the fork has failed.
_MOST = 100
# The variables that say which GPUs a process sees; ROCm's runtime prefers the first.
_VISIBLE = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")

_told: int | None = None


def tell(torch: Any, devices: Path = DEVICES) -> None:
    """Tells torch how many GPUs this process sees, unless it has a context or its forks have none already.

    Does nothing where there are none.
    """
    global _told
    cuda = torch.cuda
    if not has_gpu(devices) or _told is not None or cuda.is_initialized() or not fork_keeps_devices():
        return
    found = _ask_fork(cuda)
    if found <= _MOST:
        _told = cuda._cached_device_count = found


def heed_environment(environ: MutableMapping[str, str], devices: Path = DEVICES) -> None:
    """After a change of the environment: torch is told how many of the GPUs this process sees now."""
    environ.update(keep_forkable(environ, devices))
    if _told is None:
        return
    said = next((environ[name] for name in _VISIBLE if name in environ), None)
    seen = _told if said is None else len({name for name in said.split(",") if name.strip()})
    sys.modules["torch"].cuda._cached_device_count = min(_told, seen)


def forget() -> None:
    """In a rank, which is not forked: torch counts as in any new process."""
    global _told
    if _told is not None:
        _told = sys.modules["torch"].cuda._cached_device_count = None


def _ask_fork(cuda: Any) -> int:
    """The number of GPUs by a fork's torch, or more than ``_MOST`` where it has failed."""
    with without_fork_warning():
        pid = os.fork()
    if pid == 0:
        answer = _MOST + 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that NVML does not answer
                answer = min(cuda.device_count(), _MOST)
        finally:
            os._exit(answer)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) % 256
