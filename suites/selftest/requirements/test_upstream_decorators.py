"""Self-tests of harness.requirements.upstream_decorators: the same verdicts as torch's own decorators.

Both run on the same made-up machines. torch is told what a machine has in the place where both look for it,
so that our own probe runs too. The rows that differ on purpose are in DIFFERENT, with the reason.
"""

from __future__ import annotations

import os
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch.cuda.nccl
import torch.distributed
from torch.testing._internal import common_distributed as theirs_distributed
from torch.testing._internal import common_quantization as theirs_quantization
from torch.testing._internal import common_utils as theirs_utils

from harness import requirements as ours
from harness.requirements import probes
from suites.selftest.requirements.sample_machines import CPU, CUDA_4, MAC, XPU_2

RAN, SKIPPED, ERROR = "ran", "skipped", "error"


@dataclass(frozen=True)
class Machine:
    """A made-up machine, described by what torch reports of it."""

    name: str
    cuda: int = 0
    xpu: int = 0
    hpu: int = 0
    backends: tuple[str, ...] = ("gloo",)
    nccl: tuple[int, ...] = (2, 21, 5)
    hip: str | None = None
    platform: str = "linux"
    slow: bool = False
    sandcastle: bool = False


MACHINES = (
    Machine("cpu"),
    Machine("nothing", backends=()),
    Machine("cpu, slow", slow=True),
    Machine("cpu, sandcastle", sandcastle=True),
    Machine("cuda 1", cuda=1, backends=("gloo", "nccl")),
    Machine("cuda 4, new nccl", cuda=4, backends=("gloo", "nccl", "ucc"), nccl=(2, 27, 3)),
    Machine("cuda 8 without nccl", cuda=8, backends=("gloo", "mpi")),
    Machine("rocm 6.2", cuda=4, backends=("gloo", "nccl"), hip="6.2.1-ab12"),
    Machine("rocm 7.0", cuda=2, backends=("gloo", "nccl"), hip="7.0.5-ab12"),
    Machine("xpu 2", xpu=2, backends=("gloo", "xccl")),
    Machine("hpu 8", hpu=8),
    Machine("windows", platform="win32"),
)
ENVIRONMENTS = (
    {"WORLD_SIZE": "1", "BACKEND": "gloo"},
    {"WORLD_SIZE": "3", "BACKEND": "nccl"},
    {"WORLD_SIZE": "3", "BACKEND": "mpi"},
    {"WORLD_SIZE": "4", "BACKEND": "gloo"},
    {"WORLD_SIZE": "8", "BACKEND": "nccl"},
)

Factory = Callable[[Any], Callable[[Any], Any]]

# Each makes the decorator out of a module that has the names.
DECORATORS: dict[str, Factory] = {
    "skip_if_lt_x_gpu(1)": lambda m: m.skip_if_lt_x_gpu(1),
    "skip_if_lt_x_gpu(2)": lambda m: m.skip_if_lt_x_gpu(2),
    "skip_if_lt_x_gpu(4, allow_cpu)": lambda m: m.skip_if_lt_x_gpu(4, allow_cpu=True),
    "skip_if_no_gpu": lambda m: m.skip_if_no_gpu,
    "skip_if_small_worldsize": lambda m: m.skip_if_small_worldsize,
    "skip_if_odd_worldsize": lambda m: m.skip_if_odd_worldsize,
    "require_n_gpus_for_nccl_backend(2, nccl)": lambda m: m.require_n_gpus_for_nccl_backend(2, "nccl"),
    "require_n_gpus_for_nccl_backend(2, gloo)": lambda m: m.require_n_gpus_for_nccl_backend(2, "gloo"),
    "nccl_skip_if_lt_x_gpu(nccl, 4)": lambda m: m.nccl_skip_if_lt_x_gpu("nccl", 4),
    "nccl_skip_if_lt_x_gpu(ucc, 4)": lambda m: m.nccl_skip_if_lt_x_gpu("ucc", 4),
    "at_least_x_gpu(2)": lambda m: unittest.skipUnless(m.at_least_x_gpu(2), "too few"),
    "requires_world_size(2)": lambda m: m.requires_world_size(2),
    "requires_gloo": lambda m: m.requires_gloo(),
    "requires_nccl": lambda m: m.requires_nccl(),
    "requires_ucc": lambda m: m.requires_ucc(),
    "requires_mpi": lambda m: m.requires_mpi(),
    "requires_nccl_version": lambda m: m.requires_nccl_version((2, 27), "a test"),
    "requires_nccl_shrink": lambda m: m.requires_nccl_shrink(),
    "requires_accelerator_dist_backend": lambda m: m.requires_accelerator_dist_backend(),
    "requires_accelerator_dist_backend(nccl)": lambda m: m.requires_accelerator_dist_backend(["nccl"]),
    "requires_accelerator_dist_backend(xccl)": lambda m: m.requires_accelerator_dist_backend(["xccl"]),
    "requires_multicast_support": lambda m: m.requires_multicast_support(),
    "import_transformers_or_skip": lambda m: m.import_transformers_or_skip(),
    "skip_if_rocm_multiprocess": lambda m: m.skip_if_rocm_multiprocess,
    "skip_if_rocm_arch_multiprocess(gfx942)": lambda m: m.skip_if_rocm_arch_multiprocess(("gfx942",)),
    "skip_if_rocm_arch_multiprocess(gfx90a)": lambda m: m.skip_if_rocm_arch_multiprocess(("gfx90a",)),
    "skip_if_rocm_ver_lessthan_multiprocess(7)": lambda m: m.skip_if_rocm_ver_lessthan_multiprocess((7, 0)),
    "skip_if_rocm_ver_lessthan_multiprocess()": lambda m: m.skip_if_rocm_ver_lessthan_multiprocess(),
    "skip_if_win32": lambda m: m.skip_if_win32(),
    "skipIfRocm": lambda m: m.skipIfRocm,
    "skipIfRocm(msg)": lambda m: m.skipIfRocm(msg="why"),
    "skip_but_pass_in_sandcastle": lambda m: m.skip_but_pass_in_sandcastle("why"),
    "skip_but_pass_in_sandcastle_if(True)": lambda m: m.skip_but_pass_in_sandcastle_if(True, "why"),
    "skip_but_pass_in_sandcastle_if(False)": lambda m: m.skip_but_pass_in_sandcastle_if(False, "why"),
    "slowTest": lambda m: m.slowTest,
    "skipIfWindows": lambda m: m.skipIfWindows,
    "skipIfWindows(msg)": lambda m: m.skipIfWindows(msg="why"),
    "with_nccl_blocking_wait": lambda m: m.with_nccl_blocking_wait,
    "retry_on_connect_failures": lambda m: m.retry_on_connect_failures,
}

# torch makes these when its modules load, so they can be compared on the real machine only.
FIXED_AT_IMPORT: dict[str, Factory] = {
    "requires_cuda": lambda m: m.requires_cuda,
    "skip_if_no_torchvision": lambda m: m.skip_if_no_torchvision,
}

# (decorator, machine): what torch says and what we say.
_ACCELERATOR_FREE = ("cpu", "nothing", "cpu, slow", "cpu, sandcastle", "windows")
DIFFERENT: dict[tuple[str, str], tuple[str, str]] = {
    # It asks for ranks, and a CPU machine has ranks: only the tests' body may ask for more.
    **{("requires_world_size(2)", name): (SKIPPED, RAN) for name in _ACCELERATOR_FREE},
    # torch counts CUDA devices only, where each rank's device is an Intel or a Habana one.
    ("requires_world_size(2)", "xpu 2"): (SKIPPED, RAN),
    ("requires_world_size(2)", "hpu 8"): (SKIPPED, RAN),
}


class Theirs:
    """The decorators of torch's test modules, in one namespace."""

    def __getattr__(self, name: str) -> Any:
        modules = (theirs_distributed, theirs_utils, theirs_quantization)
        return next(getattr(module, name) for module in modules if hasattr(module, name))


@contextmanager
def on(machine: Machine, environ: dict[str, str]) -> Iterator[None]:
    """Makes torch and torch's test modules see this machine and this environment inside the block."""
    with ExitStack() as stack, tempfile.TemporaryDirectory() as nodes:
        if machine.hip:
            Path(nodes, "1").mkdir()
            Path(nodes, "1", "properties").write_text("gfx_target_version 90402\n")
        for target, name, value in replacements(machine, Path(nodes)):
            stack.enter_context(mock.patch.object(target, name, value, create=name == "hpu"))
        own = {
            "SANDCASTLE": "1" if machine.sandcastle else "0",
            "PYTORCH_TEST_WITH_SLOW": str(int(machine.slow)),
        }
        stack.enter_context(mock.patch.dict(os.environ, {**environ, **own}))
        stack.enter_context(mock.patch("sys.stderr"))
        for cached in (probes._probe, probes.probe_system):
            cached.cache_clear()
            stack.callback(cached.cache_clear)
        yield


def replacements(machine: Machine, nodes: Path) -> Iterator[tuple[Any, str, Any]]:
    """(object, attribute, value) of everything that our probe or torch's decorators read."""
    for kind in ("cuda", "xpu"):
        count = getattr(machine, kind)
        yield getattr(torch, kind), "is_available", lambda count=count: count > 0
        yield getattr(torch, kind), "device_count", lambda count=count: count
    hpu = SimpleNamespace(is_available=lambda: machine.hpu > 0, device_count=lambda: machine.hpu)
    yield torch, "hpu", hpu
    for kind in ("cuda", "xpu", "hpu"):
        yield theirs_distributed, f"TEST_{kind.upper()}", getattr(machine, kind) > 0
    properties = SimpleNamespace(gcnArchName="gfx942:sramecc+")
    yield torch.cuda, "get_device_properties", lambda device: properties
    yield torch.cuda.nccl, "version", lambda: machine.nccl
    for module in (theirs_distributed, torch._C._distributed_c10d):
        yield module, "_SymmetricMemory", driver(machine)
    for backend in ("gloo", "nccl", "ucc", "mpi", "xccl"):
        yield torch.distributed, f"is_{backend}_available", lambda found=backend in machine.backends: found
    yield torch.version, "hip", machine.hip
    for module in (theirs_utils, theirs_distributed):
        yield module, "TEST_WITH_ROCM", machine.hip is not None
    yield theirs_utils, "TEST_WITH_SLOW", machine.slow
    yield theirs_utils, "IS_WINDOWS", machine.platform == "win32"
    yield theirs_utils, "IS_SANDCASTLE", machine.sandcastle
    yield sys, "platform", machine.platform
    yield probes, "KFD_NODES", nodes


def driver(machine: Machine) -> mock.Mock:
    """A stand-in for the driver; only the machine with 8 devices has an NVSwitch."""
    return mock.Mock(**{"has_multicast_support.return_value": machine.cuda == 8})


def verdict(factory: Factory, module: Any) -> str:
    """The end of a test with this decorator: RAN, SKIPPED (maybe as a pass), or ERROR with its exit code."""
    ran: list[bool] = []

    def body(self: object) -> None:
        ran.append(True)

    try:
        test = factory(module)(body)
        if getattr(test, "__unittest_skip__", False):
            return SKIPPED
        test(SimpleNamespace())
    except unittest.SkipTest:
        return SKIPPED
    except SystemExit as leaving:
        codes = [skip.exit_code for skip in theirs_distributed.TEST_SKIPS.values()]
        return SKIPPED if leaving.code in codes else f"{ERROR}: exit {leaving.code}"
    return RAN if ran else f"{SKIPPED}, as a pass"


class SameVerdict(unittest.TestCase):
    """Our decorators and torch's of the same name, on every machine and in every environment."""

    def test_on_every_machine(self) -> None:
        theirs = Theirs()
        for machine in MACHINES:
            for environ in ENVIRONMENTS:
                with on(machine, environ):
                    found = {
                        name: (verdict(factory, theirs), verdict(factory, ours))
                        for name, factory in DECORATORS.items()
                    }
                for name, (their, our) in found.items():
                    with self.subTest(decorator=name, machine=machine.name, environ=environ):
                        expected = DIFFERENT.get((name, machine.name), (their, their))
                        self.assertEqual((their, our), expected)

    def test_requires_world_size_has_torchs_way_too(self) -> None:
        theirs = Theirs()
        for machine in MACHINES:
            if machine.xpu or machine.hpu:
                continue
            with self.subTest(machine=machine.name), on(machine, {}):
                their = verdict(lambda m: m.requires_world_size(2), theirs)
                our = verdict(lambda m: m.requires_world_size(2, allow_cpu=False), ours)
                self.assertEqual(our, their)

    def test_on_this_machine(self) -> None:
        theirs = Theirs()
        for name, factory in {**DECORATORS, **FIXED_AT_IMPORT}.items():
            with self.subTest(decorator=name), mock.patch.dict(os.environ, ENVIRONMENTS[1]):
                their, our = verdict(factory, theirs), verdict(factory, ours)
                if (name, "cpu") not in DIFFERENT:
                    self.assertEqual(our, their)

    def test_modules_that_are_missing(self) -> None:
        for module in (None, mock.Mock(spec=[]), mock.MagicMock()):
            with self.subTest(module=module), mock.patch.dict(sys.modules, {"transformers": module}):
                factory = DECORATORS["import_transformers_or_skip"]
                self.assertEqual(verdict(factory, ours), verdict(factory, Theirs()))


class AtLeast(unittest.TestCase):
    """The function ``at_least_x_gpu``, which counts devices."""

    def test_counts_the_devices_that_can_be_asked_for(self) -> None:
        for facts, count, expected in (
            (CPU, 0, False),
            (CPU, 1, False),
            (CUDA_4, 4, True),
            (CUDA_4, 5, False),
            (XPU_2, 2, True),
            (MAC, 1, False),
        ):
            with (
                self.subTest(facts=facts, count=count),
                mock.patch.object(probes, "probe", return_value=facts),
            ):
                self.assertIs(ours.at_least_x_gpu(count), expected)


if __name__ == "__main__":
    unittest.main()
