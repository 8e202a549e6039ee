"""What a requirement is held against: the machine, and the occasion on which a test is to run.

Both are plain values, so that a table in a test, a scheduler or a report can make them by hand. The probes
that fill them from the real machine stand in `probes.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

# Metal has one device, no peer and no process group of its own: a distributed test cannot ask for it by
# count, and a Mac is a CPU machine for the tests that fall back to CPU.
UNCOUNTED_DEVICE_TYPES = frozenset({"mps"})


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What this machine and its torch build offer. The default is a CPU-only Linux machine with gloo.

    `None` in a field means "not known", and what is not known is never a reason to skip: the test is judged
    again where it is known.
    """

    accelerators: tuple[tuple[str, int], ...] = ()
    """(device type, devices visible to this process), only for counts above zero."""
    backends: frozenset[str] = frozenset({"gloo"})
    """Process group backends that the build has, in lower case."""
    nccl_version: tuple[int, ...] | None = None
    rocm: bool = False
    rocm_version: tuple[int, ...] | None = None
    rocm_arch: str | None = None
    """Architecture of the first ROCm device, as "gfx942"."""
    platform: str = "linux"
    """As sys.platform says."""
    memory_mb: int | None = None
    """Memory that this process may use at most, MiB."""
    multicast: bool | None = None
    """Whether CUDA device 0 can multicast: only the driver knows; it is asked in the test's own process."""
    modules: tuple[tuple[str, bool], ...] = ()
    """(module, can be imported) of the modules that somebody asked about."""

    def devices(self, device_type: str) -> int:
        """The number of devices of that type; a CPU is always one."""
        return 1 if device_type == "cpu" else dict(self.accelerators).get(device_type, 0)

    def countable_devices(self) -> int:
        """The most devices of one type, over the types that a distributed test can ask for by count."""
        return max((n for kind, n in self.accelerators if kind not in UNCOUNTED_DEVICE_TYPES), default=0)

    def has_module(self, module: str) -> bool | None:
        """Whether the module can be imported; None where nobody has looked."""
        return dict(self.modules).get(module)

    def describe_accelerators(self) -> str:
        """As "2 cuda, 1 mps", or "no accelerator"."""
        return ", ".join(f"{count} {kind}" for kind, count in self.accelerators) or "no accelerator"


@dataclass(frozen=True, slots=True)
class Occasion:
    """The circumstances of one run of one test, beside the machine. `None` means "not known yet"."""

    world_size: int | None = None
    backend: str | None = None
    slow: bool = False
    """Whether slow tests are wanted."""
    sandcastle: bool = False
    """Whether the CI counts a skip as a complaint, so that some skips have to look like passes."""


def wishes_from(environ: Mapping[str, str]) -> Occasion:
    """What an environment says of the whole run, with no word on world size and backend.

    `PYTORCH_TEST_WITH_SLOW=1` asks for slow tests.
    """
    return Occasion(
        slow=environ.get("PYTORCH_TEST_WITH_SLOW") == "1",
        sandcastle=environ.get("SANDCASTLE") == "1" or environ.get("TW_JOB_USER") == "sandcastle",
    )


def occasion_from(
    environ: Mapping[str, str], *, world_size: int | None = None, backend: str | None = None
) -> Occasion:
    """The occasion that an environment describes, by the variables that PyTorch's own tests read.

    What the caller knows comes first, then `WORLD_SIZE` and `BACKEND`; the rest is as in `wishes_from`.
    ValueError where `WORLD_SIZE` is needed and is no positive number.
    """
    if world_size is None and environ.get("WORLD_SIZE"):
        world_size = _positive(environ["WORLD_SIZE"])
    backend = backend or environ.get("BACKEND") or None
    return replace(wishes_from(environ), world_size=world_size, backend=backend.lower() if backend else None)


def _positive(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError(f"WORLD_SIZE is {text!r}; set it to the number of ranks, or unset it")
    return int(text)
