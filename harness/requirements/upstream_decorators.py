"""The skip decorators of PyTorch's own tests, under PyTorch's names: skip_if_lt_x_gpu, requires_nccl, ...

Each can decorate a test method or a test class. Names and signatures are those of
`torch.testing._internal.common_distributed`, `common_utils` and `common_quantization`, and a test skips where
it skips there, with one difference: `requires_world_size(n)` asks for n ranks, so the test also runs on a
machine without accelerators (`allow_cpu=False` does as PyTorch does). PyTorch reads `WORLD_SIZE` and
`BACKEND`; here the test's own `world_size` and `backend` come first. The decorators that PyTorch does not
have are in `harness_decorators.py`.

A wrong argument is a ValueError where the decorator is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from harness.requirements import argument_checks, probes
from harness.requirements.attach import require
from harness.requirements.kinds import (
    AcceleratorPerRank,
    Accelerators,
    Backends,
    DeviceTypes,
    Importable,
    Multicast,
    NcclVersion,
    NotOnPlatform,
    NotOnRocm,
    RocmVersion,
    Skipped,
    WorldSizeDemand,
    WorldSizeEven,
    WorldSizeMinimum,
    dotted,
)
from harness.requirements.scheduling import Slow
from harness.settings import EnvVar

Test = TypeVar("Test", bound=Callable[..., Any])

# Upstream calls a world with fewer ranks small.
SMALL_WORLD = 8
# mpirun decides the number of ranks, so a test cannot ask for another.
FIXED_WORLD_BACKENDS = frozenset({"mpi"})
# The first NCCL that can take ranks out of a communicator.
NCCL_WITH_SHRINK = (2, 27)


def skip_if_lt_x_gpu(x: int, *, allow_cpu: bool = False) -> Callable[[Test], Test]:
    """The test needs `x` accelerators of one type; with `allow_cpu` it also runs where there are none."""
    return require(_accelerators(x, allow_cpu=allow_cpu))


def at_least_x_gpu(x: int) -> bool:
    """Whether the machine has `x` accelerators of one type. Probes the machine now."""
    wanted = argument_checks.check_count("x", x)
    return 0 < probes.probe().countable_devices() >= wanted


def skip_if_no_gpu(test: Test) -> Test:
    """The test needs one accelerator for each rank."""
    return require(AcceleratorPerRank(reason="needs one accelerator per rank"))(test)


def skip_if_small_worldsize(test: Test) -> Test:
    """The test needs 8 ranks or more, unless the backend is mpi."""
    reason = f"needs {SMALL_WORLD} ranks or more"
    return require(WorldSizeMinimum(size=SMALL_WORLD, exempt_backends=FIXED_WORLD_BACKENDS, reason=reason))(
        test
    )


def skip_if_odd_worldsize(test: Test) -> Test:
    """The test needs an even number of ranks, unless the backend is mpi."""
    reason = "needs an even number of ranks"
    return require(WorldSizeEven(exempt_backends=FIXED_WORLD_BACKENDS, reason=reason))(test)


def requires_world_size(n: int, *, allow_cpu: bool = True) -> Callable[[Test], Test]:
    """Launches the test with `n` ranks; on a machine with accelerators it needs `n` of them.

    With `allow_cpu=False` the test skips on a machine without accelerators, as it does upstream.
    """
    argument_checks.check_count("n", n, least=1)
    demand = WorldSizeDemand(size=n, allow_cpu=allow_cpu, reason=f"runs on {n} ranks, one accelerator each")

    def decorate(test: Test) -> Test:
        required = require(demand)(test)
        required._required_world_size = n  # type: ignore[attr-defined]  # where upstream's harness looks for it
        return required

    return decorate


def require_n_gpus_for_nccl_backend(n: int, backend: str) -> Callable[[Test], Test]:
    """The test needs `n` CUDA devices where `backend` is nccl, and none with another backend."""
    return nccl_skip_if_lt_x_gpu(backend, n)


def nccl_skip_if_lt_x_gpu(backend: str, x: int) -> Callable[[Test], Test]:
    """Does what `require_n_gpus_for_nccl_backend` does, with the arguments in the other order."""
    requirement = _accelerators(x, device_type="cuda")
    return require(requirement) if argument_checks.check_backends([backend]) == ("nccl",) else _as_it_is


def requires_gloo() -> Callable[[Test], Test]:
    """The test needs a torch build with gloo."""
    return _backends("gloo")


def requires_nccl() -> Callable[[Test], Test]:
    """The test needs a torch build with NCCL."""
    return _backends("nccl")


def requires_ucc() -> Callable[[Test], Test]:
    """The test needs a torch build with UCC."""
    return _backends("ucc")


def requires_mpi() -> Callable[[Test], Test]:
    """The test needs a torch build with MPI."""
    return _backends("mpi")


def requires_accelerator_dist_backend(backends: Sequence[str] | None = None) -> Callable[[Test], Test]:
    """The test needs a torch build with one of these backends; by default nccl, xccl or hccl."""
    return _backends(*(argument_checks.ACCELERATOR_BACKENDS if backends is None else backends))


def requires_nccl_version(version: Sequence[int], msg: str) -> Callable[[Test], Test]:
    """On a machine with a CUDA device, the test needs this NCCL version or a newer one; `msg` says why."""
    wanted = argument_checks.check_version("version", version)
    reason = f"needs NCCL {dotted(wanted)} or newer: {argument_checks.check_reason('msg', msg)}"
    return require(NcclVersion(version=wanted, reason=reason, passes_in_sandcastle=True))


def requires_nccl_shrink() -> Callable[[Test], Test]:
    """The test needs an NCCL that can take ranks out of a communicator."""
    return requires_nccl_version(NCCL_WITH_SHRINK, "shrinking a group")


def requires_multicast_support() -> Callable[[Test], Test]:
    """The test needs CUDA devices that can multicast. Its own process asks the driver when it is called."""
    return require(Multicast(reason="needs CUDA devices with multicast", passes_in_sandcastle=True))


def requires_cuda(test: Test) -> Test:
    """The test needs a CUDA (or ROCm) device."""
    return require(DeviceTypes(any_of=("cuda",), reason="needs a cuda device"))(test)


def import_transformers_or_skip() -> Callable[[Test], Test]:
    """The test needs the transformers package with its BERT models."""
    needed = ("AutoModelForMaskedLM", "BertConfig")
    return require(Importable(module="transformers", names=needed, reason="needs the transformers package"))


def skip_if_no_torchvision(test: Test) -> Test:
    """The test needs the torchvision package."""
    return require(Importable(module="torchvision", reason="needs the torchvision package"))(test)


@overload
def skipIfRocm(func: Test, *, msg: str = ...) -> Test: ...
@overload
def skipIfRocm(func: None = None, *, msg: str = ...) -> Callable[[Test], Test]: ...
def skipIfRocm(func: Any = None, *, msg: str = "its author says so") -> Any:
    """The test does not run on a ROCm build. Used without arguments, or with the reason."""
    decorator = require(
        NotOnRocm(reason=f"does not work on ROCm: {argument_checks.check_reason('msg', msg)}")
    )
    return decorator if func is None else decorator(func)


@overload
def skipIfWindows(func: Test, *, msg: str = ...) -> Test: ...
@overload
def skipIfWindows(func: None = None, *, msg: str = ...) -> Callable[[Test], Test]: ...
def skipIfWindows(func: Any = None, *, msg: str = "its author says so") -> Any:
    """The test does not run on Windows. Used without arguments, or with the reason."""
    reason = f"does not work on Windows: {argument_checks.check_reason('msg', msg)}"
    decorator = require(NotOnPlatform(platform="win32", reason=reason))
    return decorator if func is None else decorator(func)


def skip_if_win32() -> Callable[[Test], Test]:
    """The test does not run on Windows."""
    reason = "does not work on Windows"
    return require(NotOnPlatform(platform="win32", reason=reason, passes_in_sandcastle=True))


def skip_if_rocm_multiprocess(test: Test) -> Test:
    """The test does not run on a ROCm build."""
    return require(NotOnRocm(reason="does not work on ROCm"))(test)


def skip_if_rocm_arch_multiprocess(arch: Sequence[str]) -> Callable[[Test], Test]:
    """The test does not run on these ROCm architectures, such as ("gfx90a", "gfx942").

    The architecture is that of the first device.
    """
    archs = argument_checks.listed(arch)
    if not archs or not all(isinstance(name, str) and name.startswith("gfx") for name in archs):
        raise ValueError(f"arch is {arch!r}; give ROCm architectures, as ('gfx90a', 'gfx942')")
    return require(NotOnRocm(archs=archs, reason=f"does not work on ROCm {', '.join(archs)}"))


def skip_if_rocm_ver_lessthan_multiprocess(version: Sequence[int] | None = None) -> Callable[[Test], Test]:
    """On a ROCm build, the test needs this version or a newer one; without a version it never runs there."""
    wanted = None if version is None else argument_checks.check_version("version", version)
    reason = f"needs ROCm {dotted(wanted)} or newer" if wanted else "does not work on any ROCm"
    return require(RocmVersion(version=wanted, reason=reason))


def skip_but_pass_in_sandcastle(reason: str) -> Callable[[Test], Test]:
    """The test never runs. Where `SANDCASTLE=1`, a method passes without running in place of the skip."""
    return require(Skipped(reason=argument_checks.check_reason("reason", reason), passes_in_sandcastle=True))


def skip_but_pass_in_sandcastle_if(condition: object, reason: str) -> Callable[[Test], Test]:
    """Does what `skip_but_pass_in_sandcastle` does where the condition is true now, and otherwise nothing."""
    skip = skip_but_pass_in_sandcastle(reason)
    return skip if condition else _as_it_is


def slowTest(test: Test) -> Test:
    """The test runs only where slow tests are asked for, by `--slow` or `PYTORCH_TEST_WITH_SLOW=1`."""
    slow = require(Slow(reason=f"is slow; set {EnvVar.SLOW}=1 to run it"))(test)
    slow.slow_test = True  # type: ignore[attr-defined]  # where upstream's test case looks for it
    return slow


slow_test = slowTest


def _accelerators(count: int, *, allow_cpu: bool = False, device_type: str | None = None) -> Accelerators:
    what = f"{device_type} device" if device_type else "accelerator"
    reason = f"needs {argument_checks.check_count('x', count)} {what}{'' if count == 1 else 's'}"
    return Accelerators(count=count, allow_cpu=allow_cpu, device_type=device_type, reason=reason)


def _backends(*wanted: str) -> Callable[[Test], Test]:
    any_of = argument_checks.check_backends(wanted)
    reason = f"needs a torch build with the {' or '.join(any_of)} backend"
    return require(Backends(any_of=any_of, reason=reason, passes_in_sandcastle=True))


def _as_it_is(test: Test) -> Test:
    return test
