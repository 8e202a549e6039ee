"""Facts of this machine and run as constants, under PyTorch's names: `TEST_CUDA`, `IS_LINUX`, ...

They are found out when this module is imported. A decorator (`skip_if_lt_x_gpu`, `requires_device_type`) is
better: a runner can read it without running the test.
"""

from __future__ import annotations

import os
import sys

from harness.requirements.argument_checks import ACCELERATOR_BACKENDS
from harness.requirements.machine import wishes_from
from harness.requirements.probes import probe

_FACTS = probe()
_WISHES = wishes_from(os.environ)

TEST_CUDA = _FACTS.devices("cuda") > 0
TEST_XPU = _FACTS.devices("xpu") > 0
TEST_HPU = _FACTS.devices("hpu") > 0
TEST_MULTIGPU = _FACTS.devices("cuda") > 1
TEST_ACCELERATOR = _FACTS.accelerator()[1] > 0
TEST_MULTIACCELERATOR = _FACTS.accelerator()[1] > 1
TEST_WITH_ROCM = _FACTS.rocm
HAS_ACCELERATOR = TEST_CUDA or TEST_XPU or TEST_HPU
TEST_WITH_SLOW = _WISHES.slow
# Sanitizers: builds of torch that its own CI marks so.
TEST_WITH_DEV_DBG_ASAN = os.environ.get("PYTORCH_TEST_WITH_DEV_DBG_ASAN") == "1"
TEST_WITH_TSAN = os.environ.get("PYTORCH_TEST_WITH_TSAN") == "1"

IS_LINUX = sys.platform == "linux"
IS_MACOS = sys.platform == "darwin"
IS_WINDOWS = sys.platform == "win32"
IS_SANDCASTLE = _WISHES.sandcastle
IS_CI = bool(os.environ.get("CI"))

ACCELERATOR_DIST_BACKENDS = list(ACCELERATOR_BACKENDS)
MI200_ARCH = ("gfx90a",)
MI300_ARCH = ("gfx942",)
MI350_ARCH = ("gfx950",)
FILE_SCHEMA = "file:///" if IS_WINDOWS else "file://"
NO_MULTIPROCESSING_SPAWN = False
