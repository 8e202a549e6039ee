"""The device type ``hostmem``, a fake accelerator whose memory is the host's, and a backend for it.

::

    HOSTMEM_DEVICES=8 python run_tests.py --plugin suites.targets.hostmem c10d

It is what torch calls a ``PrivateUse1`` device: to torch and to tests all of it is an accelerator, with up to
sixteen devices (4 unless ``HOSTMEM_DEVICES`` says so), so that what machines with accelerators run is tried
where there are none. Its operators are those of the CPU. Importing this compiles it, once. The backend is
the process group of ``python_gloo``.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from suites.targets import python_gloo
from suites.targets.hostmem_device import library
from suites.targets.python_group import register

NAME = "hostmem"
BACKEND = "hostmem_gloo"

torch.utils.rename_privateuse1_backend(NAME)
library.load()

from suites.targets.hostmem_device import device_module  # its operators are loaded

torch._register_device_module(NAME, device_module)
torch.utils.generate_methods_for_privateuse1_backend()
register(BACKEND, device_type=NAME)

TARGET = replace(python_gloo.TARGET, backend=BACKEND, device_type=NAME)
