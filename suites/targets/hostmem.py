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

from harness.targets import Capability, Known
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

# FullyShardedDataParallel moves parameters from the CPU in place, which torch does for its own devices only.
_CAPABILITIES = python_gloo.TARGET.capabilities - {Capability.FSDP1, Capability.INDUCTOR}
TARGET = replace(
    python_gloo.TARGET,
    backend=BACKEND,
    device_type=NAME,
    capabilities=_CAPABILITIES,
    visible_devices="HOSTMEM_VISIBLE_DEVICES",
)

_NO_KERNEL = "torch takes a fused cell of recurrent networks on accelerators, and the CPU has none"
_NOT_TRACED = "what a group in Python does to a tensor in place is no operator, which tracing could see"
_NO_RANDOM_STATE = "torch keeps the state of random numbers for recomputation on its own devices only"
_NOT_LAZY = "parameters without a shape yet lose that when they move to other devices than torch's own"
_NO_SPARSE = "hostmem has no sparse tensors"
_RESIZED = "hostmem's losses resize their results, of which torch warns, and warnings are errors there"
_NO_DEVICE_TYPES = (
    "compiler collectives ask a group for its backends' device types, and one in Python has none"
)

KNOWN = (
    Known("spmd.test_train_step_coverage.LayersTest.test_recurrent", _NO_KERNEL),
    Known("spmd.test_mesh_tracing.*_in_place_nd", _NOT_TRACED),
    Known("spmd.test_mesh_tracing.*.test_in_place_without_a_wait", _NOT_TRACED),
    Known("dynamo.test_compiler_collectives.TestCompilerCollectives.*", _NO_DEVICE_TYPES),
    Known("dynamo.test_bert_fsdp.BertFullyShardTest.*_activation_checkpointing_aot_eager", _NO_RANDOM_STATE),
    Known("fsdp.test_fsdp1_units.Fsdp1UnitsTest.test_one_parameter_of_two_modules", _RESIZED),
    Known("aot.test_module_sweep.*_nn_Lazy*", _NOT_LAZY),
    Known("aot.test_operator_sweep.*_sparse_mm_reduce_*", _NO_SPARSE),
    Known("aot.*.test_embedding_bag_view_dynamic", _NO_SPARSE),
)
