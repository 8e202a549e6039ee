"""The environment variables of the harness, the default timeout and graces, and ``Settings``, their value.

``EnvVar`` has the names; ``harness.variables`` lists them with their meanings, and ``harness.setting_values``
parses their values. The durations are defaults; what the supervisor does when one is over is decided in
``harness.ranks.deadlines``. The variables that name a shard are in
``harness.runner.selection.shard_variables``, those of thread counts in ``harness.system.intra_op_threads``.

The library reads them in any process: under ``run_tests.py``, ``unittest`` or ``pytest``, in a worker and in
a rank. ``run_tests.py`` passes its flags to its workers as these variables (``Settings.to_environ``). This
module imports nothing but light modules of the standard library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from harness.errors import UsageError
from harness.setting_values import (
    LONGEST_S,
    duration,
    name_of_backend,
    name_of_device,
    name_of_module,
    one_of,
    positive_seconds,
    seed_number,
    timeout_multiplier,
    whole_number,
    whole_number_above_0,
)

# Seconds. Long enough for the slowest compile test on a loaded two-core machine, short enough that a hang
# does not take most of the run's time.
TIMEOUT_S = 120.0
# What changes it, for the report of a test that it has ended.
MORE_TIME = (
    "@timeout(seconds) on the test gives it more time; --timeout (under pytest --rank-timeout) or "
    "HARNESS_TIMEOUT gives it to all tests"
)
# Seconds for the peers to report after a rank's first failure. They fail on the same line within
# milliseconds, or wait for the dead rank forever.
GRACE_S = 1.0
# Seconds for ranks to exit after all have reported; covers gloo's shutdown and a flush of coverage.
EXIT_GRACE_S = 10.0
# Seconds for the peers to report after a rank skipped: a skip usually precedes slow work, which ranks that
# should have skipped too are busy with.
SKIP_GRACE_S = 10.0
# Seconds. A host that works says something each second; one whose network stalls for some may come back.
HOST_TIMEOUT_S = 20.0
assert GRACE_S < SKIP_GRACE_S <= EXIT_GRACE_S < TIMEOUT_S < LONGEST_S

# torch.testing's own default, so that a ported test draws the numbers that it drew before.
SEED = 1234
LAUNCHERS = ("forkserver", "spawn", "external")
TOO_FEW_RANKS = ("error", "skip")
RANK_OUTPUTS = ("capture", "stream", "raw")
COMM_CHECKS = ("off", "warn", "error", "values")
RANK_MODES = ("fresh", "pooled", "threads", "local")
PLACEMENTS = ("packed", "spread")

# The default state directory of run_tests.py, relative to the working directory.
STATE_DIRECTORY = ".harness"

# The attribute of a test method that starts ranks itself, whatever its class is.
SUPERVISED = "__harness_supervised__"

T = TypeVar("T")


class EnvVar:
    """The name of each environment variable; no other file of the harness spells one."""

    TIMEOUT = "HARNESS_TIMEOUT"
    TIMEOUT_MULTIPLIER = "HARNESS_TIMEOUT_MULTIPLIER"
    UPSTREAM_TIMEOUT = "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT"
    SEED = "HARNESS_SEED"
    LAUNCHER = "HARNESS_LAUNCHER"
    RANKS = "HARNESS_RANKS"
    TOO_FEW_RANKS = "HARNESS_TOO_FEW_RANKS"
    RANK_OUTPUT = "HARNESS_RANK_OUTPUT"
    STRICT = "HARNESS_STRICT"
    COMM_CHECK = "HARNESS_COMM_CHECK"
    LOG_DIR = "HARNESS_LOG_DIR"
    GRACE = "HARNESS_GRACE"
    EXIT_GRACE = "HARNESS_EXIT_GRACE"
    SKIP_GRACE = "HARNESS_SKIP_GRACE"
    PDB_RANK = "HARNESS_PDB_RANK"
    DROP_IN = "HARNESS_DROP_IN"
    EXAMPLES = "HARNESS_EXAMPLES"
    CHAOS = "HARNESS_CHAOS"
    SLOW = "PYTORCH_TEST_WITH_SLOW"
    ACCEPT = "EXPECTTEST_ACCEPT"
    WORLD_SIZE = "WORLD_SIZE"
    BACKEND = "BACKEND"
    TARGET_BACKEND = "HARNESS_BACKEND"
    TARGET_DEVICE = "HARNESS_DEVICE"
    PLUGIN = "HARNESS_PLUGIN"
    CONFORMANCE = "HARNESS_CONFORMANCE"
    STATE_DIR = "HARNESS_STATE_DIR"
    CONFIG = "HARNESS_CONFIG"
    PROFILE = "HARNESS_PROFILE"
    KEY = "HARNESS_KEY"
    KEY_FILE = "HARNESS_KEY_FILE"
    PLACEMENT = "HARNESS_PLACEMENT"
    HOST_TIMEOUT = "HARNESS_HOST_TIMEOUT"
    # Set by --hosts for the processes of tests.
    HOSTS = "HARNESS_HOSTS"
    # Set for ranks on several hosts: where they meet, and why not at a file. Users do not set them.
    STORE = "HARNESS_STORE"
    NO_SHARED_FILE = "HARNESS_NO_SHARED_FILE"
    # Set for ranks on several hosts: the address of the rank's own host.
    HOST_ADDR = "HARNESS_HOST_ADDR"
    # Set in workers of run_tests.py, which names the command to run a failed test again; elsewhere the test
    # does. Users do not set it.
    WORKER = "HARNESS_WORKER"
    # Set in workers of run_tests.py for a test whose deadline a configuration file decides, by an override.
    # Users do not set it.
    TEST_TIMEOUT = "HARNESS_TEST_TIMEOUT"
    # Set in workers of run_tests.py --record-map: the directory in which processes note which files tests
    # execute, and the test that runs. Users do not set them.
    EXECUTED = "HARNESS_EXECUTED"
    RUNNING_TEST = "HARNESS_RUNNING_TEST"


# What asks for another target than the default one.
TARGET_VARIABLES = (EnvVar.TARGET_BACKEND, EnvVar.TARGET_DEVICE, EnvVar.PLUGIN)
# Harness CI, a build service, sets dozens of variables named HARNESS_..., these always.
BUILD_SERVICE_VARIABLES = ("HARNESS_ACCOUNT_ID", "HARNESS_BUILD_ID")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of this process. Durations in seconds, all finite.

    ``timeout_multiplier`` multiplies the deadline of every test, whoever sets it. ``test_timeout_s`` is the
    deadline of every test, also of those that set one, or None.
    ``launcher`` None means the fastest launcher that is safe here, ``ranks`` None the rank mode of the test's
    class, ``examples`` None a small, fixed number for each property test. ``chaos`` is the seed of the delays
    of ranks around their communication, None for no delays. ``comm_check`` "" means errors for
    arguments that differ between ranks and warnings for the rest. ``pdb_rank`` is the rank that has the
    terminal; no deadline or grace applies while it is set. ``too_few_ranks`` is what a test becomes that asks
    for more ranks than somebody else has started. ``backend``, ``device`` and ``plugin`` choose the
    target that is tested (``harness.targets``); where all are None, it is gloo on the CPU. ``conformance`` is
    the directory in which tests record the cells that they try, None where they record none. ``hosts`` is ""
    where ranks are started on this machine, else what ``harness.hosts.hosts`` reads.
    """

    timeout_s: float = TIMEOUT_S
    seed: int = SEED
    launcher: str | None = None
    ranks: str | None = None
    too_few_ranks: str = "error"
    rank_output: str = "capture"
    strict: bool = False
    comm_check: str = ""
    log_dir: str | None = None
    grace_s: float = GRACE_S
    exit_grace_s: float = EXIT_GRACE_S
    skip_grace_s: float = SKIP_GRACE_S
    pdb_rank: int | None = None
    examples: int | None = None
    chaos: int | None = None
    slow: bool = False
    timeout_multiplier: float = 1.0
    backend: str | None = None
    device: str | None = None
    plugin: str | None = None
    conformance: str | None = None
    test_timeout_s: float | None = None
    hosts: str = ""
    placement: str = PLACEMENTS[0]
    host_timeout_s: float = HOST_TIMEOUT_S

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Settings:
        """The settings of ``environ``; a variable that is unset or empty leaves its default.

        ``HARNESS_TIMEOUT`` takes precedence over ``DISTRIBUTED_TESTS_DEFAULT_TIMEOUT``. No value of
        ``PYTORCH_TEST_WITH_SLOW`` is an error. UsageError, in one line, for any other value that cannot be
        used.
        """
        read = _Reader(environ)
        return cls(
            timeout_s=read(
                EnvVar.TIMEOUT, positive_seconds, read(EnvVar.UPSTREAM_TIMEOUT, positive_seconds, TIMEOUT_S)
            ),
            seed=read(EnvVar.SEED, seed_number, SEED),
            launcher=read(EnvVar.LAUNCHER, one_of(LAUNCHERS), None),
            ranks=read(EnvVar.RANKS, one_of(RANK_MODES), None),
            too_few_ranks=read(EnvVar.TOO_FEW_RANKS, one_of(TOO_FEW_RANKS), "error"),
            rank_output=read(EnvVar.RANK_OUTPUT, one_of(RANK_OUTPUTS), "capture"),
            strict=read(EnvVar.STRICT, one_of(("0", "1")), "0") == "1",
            comm_check=read(EnvVar.COMM_CHECK, one_of(COMM_CHECKS), ""),
            log_dir=environ.get(EnvVar.LOG_DIR) or None,
            grace_s=read(EnvVar.GRACE, duration, GRACE_S),
            exit_grace_s=read(EnvVar.EXIT_GRACE, duration, EXIT_GRACE_S),
            skip_grace_s=read(EnvVar.SKIP_GRACE, duration, SKIP_GRACE_S),
            pdb_rank=debugged_rank(environ),
            examples=read(EnvVar.EXAMPLES, whole_number_above_0, None),
            chaos=read(EnvVar.CHAOS, seed_number, None),
            slow=slow_wanted(environ),
            timeout_multiplier=read(EnvVar.TIMEOUT_MULTIPLIER, timeout_multiplier, 1.0),
            backend=read(EnvVar.TARGET_BACKEND, name_of_backend, None),
            device=read(EnvVar.TARGET_DEVICE, name_of_device, None),
            plugin=read(EnvVar.PLUGIN, name_of_module, None),
            conformance=environ.get(EnvVar.CONFORMANCE) or None,
            test_timeout_s=read(EnvVar.TEST_TIMEOUT, positive_seconds, None),
            hosts=environ.get(EnvVar.HOSTS, ""),
            placement=read(EnvVar.PLACEMENT, one_of(PLACEMENTS), PLACEMENTS[0]),
            host_timeout_s=read(EnvVar.HOST_TIMEOUT, positive_seconds, HOST_TIMEOUT_S),
        )

    def deadline_s(self, *asked: float | None) -> float:
        """A test's deadline in seconds: the first of ``asked`` that is not None, else ``timeout_s``.

        ``test_timeout_s`` goes before all of them. It is multiplied by ``timeout_multiplier``, to
        ``LONGEST_S`` at most.
        """
        limits = (self.test_timeout_s, *asked, self.timeout_s)
        seconds = next(seconds for seconds in limits if seconds is not None)
        return multiplied(seconds, self.timeout_multiplier)

    def to_environ(self) -> dict[str, str]:
        """The variables that make another process read these same settings.

        Defaults are written out too, so that they override what that process inherited. A choice that is not
        made is the empty string. ``test_timeout_s``, which is one test's, is left out.
        """
        return {
            EnvVar.TIMEOUT: repr(self.timeout_s),
            EnvVar.SEED: str(self.seed),
            EnvVar.LAUNCHER: self.launcher or "",
            EnvVar.RANKS: self.ranks or "",
            EnvVar.TOO_FEW_RANKS: self.too_few_ranks,
            EnvVar.RANK_OUTPUT: self.rank_output,
            EnvVar.STRICT: "1" if self.strict else "0",
            EnvVar.COMM_CHECK: self.comm_check,
            EnvVar.LOG_DIR: self.log_dir or "",
            EnvVar.GRACE: repr(self.grace_s),
            EnvVar.EXIT_GRACE: repr(self.exit_grace_s),
            EnvVar.SKIP_GRACE: repr(self.skip_grace_s),
            EnvVar.PDB_RANK: "" if self.pdb_rank is None else str(self.pdb_rank),
            EnvVar.EXAMPLES: "" if self.examples is None else str(self.examples),
            EnvVar.CHAOS: "" if self.chaos is None else str(self.chaos),
            EnvVar.SLOW: "1" if self.slow else "0",
            EnvVar.TIMEOUT_MULTIPLIER: repr(self.timeout_multiplier),
            EnvVar.TARGET_BACKEND: self.backend or "",
            EnvVar.TARGET_DEVICE: self.device or "",
            EnvVar.PLUGIN: self.plugin or "",
            EnvVar.CONFORMANCE: self.conformance or "",
            EnvVar.HOSTS: self.hosts,
            EnvVar.PLACEMENT: self.placement,
            EnvVar.HOST_TIMEOUT: repr(self.host_timeout_s),
        }


def multiplied(seconds: float, multiplier: float) -> float:
    """A deadline that is multiplied, to ``LONGEST_S`` at most."""
    return min(seconds * multiplier, LONGEST_S)


def slow_wanted(environ: Mapping[str, str]) -> bool:
    """Whether ``environ`` asks for slow tests. As upstream, only ``PYTORCH_TEST_WITH_SLOW=1`` does."""
    return environ.get(EnvVar.SLOW) == "1"


def target_given(environ: Mapping[str, str]) -> bool:
    """Whether ``environ`` asks for a target; the default one needs no check before tests run."""
    return any(environ.get(name, "").strip() for name in TARGET_VARIABLES)


def timeout_given(environ: Mapping[str, str]) -> bool:
    """Whether ``environ`` sets a deadline by ``HARNESS_TIMEOUT``, which overrides upstream's deadlines."""
    return bool(environ.get(EnvVar.TIMEOUT, "").strip())


def debugged_rank(environ: Mapping[str, str]) -> int | None:
    """The rank that gets the terminal by ``HARNESS_PDB_RANK``, None where no rank does.

    UsageError where the value is not a whole number.
    """
    return _Reader(environ)(EnvVar.PDB_RANK, whole_number, None)


class _Reader:
    """Reads one variable at a time, and names the variable where its value cannot be used."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def __call__(self, name: str, parse: Callable[[str], T], default: T) -> T:
        text = self._environ.get(name, "").strip()
        if not text:
            return default
        try:
            return parse(text)
        except ValueError as error:
            raise UsageError(f"{name}={text!r}: {error}") from None
