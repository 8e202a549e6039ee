"""`MachineFacts` and `RunFacts`: the facts of a machine and of a run that requirements are checked against.

Both are plain values that tests, schedulers and reports can also make by hand. `probes.py` fills them for the
real machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.hosts.hosts import from_text
from harness.settings import EnvVar, slow_wanted

# Metal has one device and no process group: a distributed test cannot ask for it by count, and tests that
# fall back to CPU treat a Mac as a CPU machine.
UNCOUNTED_DEVICE_TYPES = frozenset({"mps"})


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What this machine and its torch build offer. The default is a CPU-only Linux machine with gloo.

    `None` in a field means "not known", which is never a reason to skip: the requirement is checked again in
    the process where the fact is known.
    """

    accelerators: tuple[tuple[str, int], ...] = ()
    """Pairs of a device type and the number of its devices visible to this process, above zero."""
    backends: frozenset[str] = frozenset({"gloo"})
    """The process group backends of the torch build, in lower case."""
    nccl_version: tuple[int, ...] | None = None
    rocm: bool = False
    rocm_version: tuple[int, ...] | None = None
    rocm_arch: str | None = None
    """The architecture of the first ROCm device, such as "gfx942"."""
    platform: str = "linux"
    """The operating system, named as in sys.platform."""
    memory_mb: int | None = None
    """The memory that this process may use, in MiB."""
    multicast: bool | None = None
    """Whether CUDA device 0 can multicast. Only the driver knows, which the test's own process asks."""
    modules: tuple[tuple[str, bool], ...] = ()
    """Pairs of a module and whether it can be imported, for the modules that were looked for."""

    def devices(self, device_type: str) -> int:
        """The number of devices of this type; always 1 for "cpu"."""
        return 1 if device_type == "cpu" else dict(self.accelerators).get(device_type, 0)

    def accelerator(self) -> tuple[str, int]:
        """The (device type, number of devices) that distributed tests can use; ("cpu", 0) without any."""
        counted = [each for each in self.accelerators if each[0] not in UNCOUNTED_DEVICE_TYPES]
        return counted[0] if counted else ("cpu", 0)

    def countable_devices(self) -> int:
        """The largest number of devices of one type, among types that a distributed test can ask for."""
        return max((n for kind, n in self.accelerators if kind not in UNCOUNTED_DEVICE_TYPES), default=0)

    def has_module(self, module: str) -> bool | None:
        """Whether the module can be imported; None where nobody has looked for it."""
        return dict(self.modules).get(module)

    def describe_accelerators(self) -> str:
        """The accelerators in words: "2 cuda, 1 mps" or "no accelerator"."""
        return ", ".join(f"{count} {kind}" for kind, count in self.accelerators) or "no accelerator"


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts of one run of a test that are not the machine's. `None` means "not known yet"."""

    world_size: int | None = None
    backend: str | None = None
    hosts: int | None = None
    """The number of hosts of the run (`--hosts`)."""
    accelerators_elsewhere: int | None = 0
    """The number of accelerators of the run's other hosts."""
    slow: bool = False
    """Whether slow tests are wanted."""
    sandcastle: bool = False
    """Whether the CI reports skips as problems (SANDCASTLE=1), so that some skips have to be passes."""


def wishes_from(environ: Mapping[str, str]) -> RunFacts:
    """The run_facts that an environment describes, without world size and backend.

    `PYTORCH_TEST_WITH_SLOW=1` asks for slow tests; `SANDCASTLE=1` or `TW_JOB_USER=sandcastle` marks that CI.
    """
    return RunFacts(
        hosts=_hosts(environ),
        accelerators_elsewhere=accelerators_elsewhere(environ),
        slow=slow_wanted(environ),
        sandcastle=environ.get("SANDCASTLE") == "1" or environ.get("TW_JOB_USER") == "sandcastle",
    )


def run_facts_from(
    environ: Mapping[str, str], *, world_size: int | None = None, backend: str | None = None
) -> RunFacts:
    """The run_facts that an environment describes, by the variables that PyTorch's own tests read.

    The caller's `world_size` and `backend` come before `WORLD_SIZE` and `BACKEND`, and that before
    `HARNESS_BACKEND`; the rest is as in
    `wishes_from`. ValueError where `WORLD_SIZE` is needed and is not a positive number.
    """
    if world_size is None and environ.get(EnvVar.WORLD_SIZE):
        world_size = _positive(environ[EnvVar.WORLD_SIZE])
    backend = backend or environ.get(EnvVar.BACKEND) or environ.get(EnvVar.TARGET_BACKEND) or None
    return replace(wishes_from(environ), world_size=world_size, backend=backend.lower() if backend else None)


def _hosts(environ: Mapping[str, str]) -> int | None:
    """How many hosts the run has; None in a rank of a test that spans some, whose parent has asked that."""
    if environ.get(EnvVar.STORE):
        return None
    return len(from_text(environ[EnvVar.HOSTS])) if environ.get(EnvVar.HOSTS) else 1


def accelerators_elsewhere(environ: Mapping[str, str]) -> int | None:
    """How many accelerators the other hosts have on which a test of this process can have ranks.

    None in a rank of a test that spans hosts, whose parent has asked whether there are enough.
    """
    if environ.get(EnvVar.STORE):
        return None
    hosts = from_text(environ[EnvVar.HOSTS]) if environ.get(EnvVar.HOSTS) else ()
    return sum(host.accelerators for host in hosts if not host.own)


def _positive(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError(f"{EnvVar.WORLD_SIZE} is {text!r}; set it to the number of ranks, or unset it")
    return int(text)
