"""The list of the environment variables that the harness reads, and which of them decide verdicts.

``--help`` and ``docs/variables.rst`` show the list. The names are those of ``harness.settings``, which reads
most of the variables.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.setting_values import LARGEST_SEED
from harness.settings import (
    COMM_CHECKS,
    EXIT_GRACE_S,
    GRACE_S,
    HOST_TIMEOUT_S,
    LAUNCHERS,
    PLACEMENTS,
    RANK_MODES,
    RANK_OUTPUTS,
    SEED,
    SKIP_GRACE_S,
    STATE_DIRECTORY,
    TIMEOUT_S,
    TOO_FEW_RANKS,
    EnvVar,
)


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable that the harness reads, as ``--help`` and ``docs/variables.rst`` list it."""

    name: str
    values: str
    meaning: str


VARIABLES = (
    Variable(
        EnvVar.TIMEOUT, f"seconds, default {TIMEOUT_S:g}", "deadline of a test that sets none by @timeout"
    ),
    Variable(EnvVar.UPSTREAM_TIMEOUT, "seconds", "the same, under upstream's name"),
    Variable(
        EnvVar.TIMEOUT_MULTIPLIER,
        "number, default 1",
        "multiplies every test's deadline, those by @timeout too: for slow or busy machines",
    ),
    Variable(EnvVar.SEED, f"0 to {LARGEST_SEED}, default {SEED}", "seed of every random generator"),
    Variable(
        EnvVar.LAUNCHER,
        "|".join(LAUNCHERS),
        "how ranks start; unset: the fastest that is safe here",
    ),
    Variable(EnvVar.RANKS, "|".join(RANK_MODES), "what ranks are, where the class allows it"),
    Variable(
        EnvVar.TOO_FEW_RANKS,
        "|".join(TOO_FEW_RANKS),
        "what becomes of a test that asks for more ranks than an external launcher started; default error",
    ),
    Variable(
        EnvVar.RANK_OUTPUT,
        "|".join(RANK_OUTPUTS),
        "keep what ranks print, show its lines with the rank in front, or show it as it comes",
    ),
    Variable(
        EnvVar.STRICT,
        "0|1, default 0",
        "a test that leaves processes behind, or kept ranks changed, is an error",
    ),
    Variable(
        EnvVar.COMM_CHECK,
        "|".join(COMM_CHECKS),
        "what is wrong with ranks' communication; unset: arguments that differ are errors, the rest "
        "warnings; values: all warnings, and wrong results are errors",
    ),
    Variable(
        EnvVar.LOG_DIR,
        "directory",
        "where each rank's output is kept; unset: nowhere, failures quote its end",
    ),
    Variable(
        EnvVar.GRACE, f"seconds, default {GRACE_S:g}", "for peers to report after a rank's first failure"
    ),
    Variable(
        EnvVar.EXIT_GRACE, f"seconds, default {EXIT_GRACE_S:g}", "for ranks to leave after all have reported"
    ),
    Variable(
        EnvVar.SKIP_GRACE, f"seconds, default {SKIP_GRACE_S:g}", "for peers to report after a rank skipped"
    ),
    Variable(EnvVar.PDB_RANK, "rank", "that rank gets the terminal, and no deadline is kept"),
    Variable(EnvVar.DROP_IN, "1", "what --drop-in and harness.dropin set for the processes that they start"),
    Variable(EnvVar.EXAMPLES, "number", "random examples of each property test, of HARNESS_SEED; unset: few"),
    Variable(
        EnvVar.CHAOS,
        "seed",
        "ranks are delayed at random before and after communication: a verdict that changes is a race",
    ),
    Variable(EnvVar.SLOW, "1", "the exhaustive operator and module sweeps run too"),
    Variable(EnvVar.ACCEPT, "1", "expected outputs are rewritten in the tests' sources"),
    Variable(EnvVar.WORLD_SIZE, "number", "the world size that skip_if_lt_x_gpu and the like check"),
    Variable(EnvVar.BACKEND, "gloo|nccl|...", "the backend that they check"),
    Variable(EnvVar.TARGET_BACKEND, "name, default gloo", "the backend that the suites test"),
    Variable(EnvVar.TARGET_DEVICE, "type, default cpu", "the device type that they test it on"),
    Variable(
        EnvVar.PLUGIN,
        "module",
        "registers that backend or device, and has its TARGET; imported before tests run",
    ),
    Variable(
        EnvVar.CONFORMANCE,
        "directory",
        "where tests record the cells that they try; set by --report conformance",
    ),
    Variable(
        EnvVar.STATE_DIR,
        f"directory, default {STATE_DIRECTORY}",
        "where run_tests.py keeps caches and runs",
    ),
    Variable(
        EnvVar.CONFIG,
        "file or none",
        "the configuration file, or no file; unset: the nearest torch-harness.toml or pyproject.toml",
    ),
    Variable(EnvVar.PROFILE, "name", "the profile of the configuration file that holds"),
    Variable(EnvVar.HOSTS, "set by --hosts", "the hosts on which the tests' ranks are started"),
    Variable(EnvVar.KEY, "text", "the key by which the hosts of a run know each other, the same on all"),
    Variable(EnvVar.KEY_FILE, "file", "the same, in a file that only its owner can read"),
    Variable(
        EnvVar.PLACEMENT,
        "|".join(PLACEMENTS),
        "a test's ranks on as few hosts as have room for them, or on as many as there are",
    ),
    Variable(
        EnvVar.HOST_TIMEOUT,
        f"seconds, default {HOST_TIMEOUT_S:g}",
        "a host that says nothing for so long is lost",
    ),
)

# The variables that can change a test's verdict; a run that resumes another one takes its values.
VERDICT_VARIABLES = (
    EnvVar.TIMEOUT,
    EnvVar.UPSTREAM_TIMEOUT,
    EnvVar.TIMEOUT_MULTIPLIER,
    EnvVar.SEED,
    EnvVar.LAUNCHER,
    EnvVar.RANKS,
    EnvVar.TOO_FEW_RANKS,
    EnvVar.STRICT,
    EnvVar.COMM_CHECK,
    EnvVar.GRACE,
    EnvVar.EXIT_GRACE,
    EnvVar.SKIP_GRACE,
    EnvVar.DROP_IN,
    EnvVar.EXAMPLES,
    EnvVar.CHAOS,
    EnvVar.SLOW,
    EnvVar.WORLD_SIZE,
    EnvVar.BACKEND,
    EnvVar.TARGET_BACKEND,
    EnvVar.TARGET_DEVICE,
    EnvVar.PLUGIN,
    EnvVar.CONFIG,
    EnvVar.PROFILE,
)
