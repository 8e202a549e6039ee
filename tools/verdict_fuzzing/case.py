"""``FuzzCase``: one random case, and ``draw``, which makes it from its seed alone."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# What a case may strike at, in the order in which a rank comes there. "late" is in the body after the ranks
# have met, "exit" in a function of atexit.
MOMENTS = ("import", "set-up", "body", "sub-test", "late", "tear-down", "cleanup", "exit")
# What ranks do that are not struck: the middle three wait until the struck ranks come as far.
PEERS = ("pass", "sleep", "collective", "store", "busy", "skip", "fail")

FAILING = ("assertion", "assertion_subclass", "huge_message")
RAISING = (
    *("value_error", "base_exception", "unprintable", "exception_group", "recursion_error", "memory_error"),
    *("stop_iteration", "keyboard_interrupt"),
)
EXITING = ("sys_exit_0", "sys_exit_3", "sys_exit_none", "sys_exit_text")
DYING = ("os_exit_0", "os_exit_3", "sigsegv", "sigkill", "sigterm", "sigabrt", "real_time_signal")
GARBLING = ("close_all", "garbage")
HANGING_IN_PYTHON = ("wait_for_event", "sleep_loop", "catch_everything")
HANGING = (
    *HANGING_IN_PYTHON,
    *("native_sleep", "native_poll", "native_sleep_with_gil", "native_lock_with_gil", "ignore_sigterm"),
    "sigstop",
)
LEAVING_PROCESSES = ("process_left", "session_left")
HARMLESS = ("nothing", "thread_left", "daemon_thread_left", "flood", "fork_returns", *LEAVING_PROCESSES)
# Test methods that unittest would call and never run.
NEVER_RUN = ("async_method", "generator_method")
SKIPPING = ("skip", "sub_test_fails_then_skip")
FAULTS = (
    *(*FAILING, *RAISING, *EXITING, *DYING, *GARBLING, *HANGING, *HARMLESS, *NEVER_RUN),
    *SKIPPING,
)

# In one process with everybody else: what ends or stops the process would end or stop the tests' own.
_ON_THREADS = frozenset(
    (*FAILING, *RAISING, *EXITING, *HANGING_IN_PYTHON, *NEVER_RUN, *SKIPPING)
) | frozenset(("native_sleep", "native_poll", "nothing", "flood", "daemon_thread_left"))
_EXTERNAL = frozenset(FAULTS) - {"keyboard_interrupt", "thread_left", *GARBLING, *LEAVING_PROCESSES}
_LOCAL = frozenset(
    ("assertion", "value_error", "unprintable", "sys_exit_3", "os_exit_3", "sigsegv", "sleep_loop")
) | frozenset(("native_sleep", "nothing", "flood", *SKIPPING))
_ON_IMPORT = frozenset(("assertion", "value_error", "sys_exit_3", "os_exit_3", "sigkill", "sleep_loop"))
_POSSIBLE: Mapping[str, frozenset[str]] = {
    "fresh": frozenset(FAULTS),
    "pooled": frozenset(FAULTS),
    "kept": frozenset(FAULTS),
    "threads": _ON_THREADS,
    "external": _EXTERNAL,
    "local": _LOCAL,
}
# How often each way to run a case is drawn: (mode, launcher, who runs it) and a weight.
_WAYS: Mapping[tuple[str, str, str], float] = {
    ("fresh", "forkserver", "unittest"): 30,
    ("fresh", "forkserver", "run_tests"): 6,
    ("fresh", "spawn", "unittest"): 3,
    ("pooled", "forkserver", "unittest"): 18,
    ("pooled", "forkserver", "run_tests"): 3,
    ("pooled", "spawn", "unittest"): 1,
    ("kept", "forkserver", "unittest"): 8,
    ("kept", "forkserver", "run_tests"): 2,
    ("threads", "forkserver", "unittest"): 14,
    ("threads", "forkserver", "run_tests"): 2,
    ("external", "external", "unittest"): 10,
    ("local", "forkserver", "unittest"): 3,
}


@dataclass(frozen=True, slots=True)
class FuzzCase:
    """One test, what its ranks do, and how it is run.

    ``mode`` is a rank mode, or "kept" for pooled ranks that keep their process group. ``strikers`` are the
    ranks on which the fault strikes, at ``moment``; ``peers`` is what the other ranks do. ``retries`` says
    that the class allows fresh ranks for a second attempt, ``prelude`` that a test passes on these ranks
    before.
    """

    seed: int
    mode: str
    launcher: str
    runner: str
    world_size: int
    fault: str
    strikers: tuple[int, ...]
    moment: str
    peers: str
    expected_failure: bool = False
    strict: bool = False
    retries: bool = False
    prelude: bool = True

    @property
    def others(self) -> tuple[int, ...]:
        """The ranks on which the fault does not strike."""
        return tuple(rank for rank in range(self.world_size) if rank not in self.strikers)

    def __str__(self) -> str:
        marks = ("expected_failure", "strict", "retries")
        told = [name.replace("_", " ") for name in marks if getattr(self, name)]
        return (
            f"{self.mode} ranks ({self.launcher}, {self.runner}), world size {self.world_size}: {self.fault} "
            f"in {self.moment} on {list(self.strikers)}, peers {self.peers}{''.join(f', {t}' for t in told)}"
        )


def draw(seed: int, only: Sequence[str] = ()) -> FuzzCase:
    """The case of a seed; with ``only``, of those that match one of these faults, moments or modes.

    Equal arguments draw equal cases. ValueError where nothing can match.
    """
    rng = random.Random(seed)
    known = (*FAULTS, *MOMENTS, *PEERS, *dict.fromkeys(word for way in _WAYS for word in way))
    for word in only:
        if word not in known:
            raise ValueError(f"there is no {word!r} to draw: choose among {', '.join(known)}")
    for _ in range(100_000):
        case = _drawn(seed, rng)
        if possible(case) and all(word in _words(case) for word in only):
            return case
    raise ValueError(f"no case is all of {', '.join(only)}")


def _words(case: FuzzCase) -> tuple[str, ...]:
    return (case.fault, case.moment, case.mode, case.peers, case.launcher, case.runner)


def _drawn(seed: int, rng: random.Random) -> FuzzCase:
    """A case that may be impossible, with as many strikers as there are ranks for what strikes all alike."""
    mode, launcher, runner = rng.choices([*_WAYS], [*_WAYS.values()])[0]
    family = rng.choice((FAILING, RAISING, EXITING, DYING, HANGING, HARMLESS, SKIPPING, GARBLING + NEVER_RUN))
    fault = rng.choice(family)
    moment = rng.choices(MOMENTS, (0.3, 2, 4, 3, 3, 2, 2, 1))[0]
    world_size = rng.choices((1, 2, 3, 4, 8), (1, 6, 4, 3, 0.4))[0]
    count = world_size if rng.random() < 0.12 else rng.choice((1, 1, 1, 2))
    strikers = tuple(sorted(rng.sample(range(world_size), min(count, world_size))))
    peers = rng.choices(PEERS, (3, 1, 4, 2, 1, 1.5, 1.5))[0]
    if moment == "import" or mode == "local" or fault in NEVER_RUN:
        strikers = tuple(range(world_size))
    if len(strikers) == world_size:
        peers = "pass"
    return FuzzCase(
        seed,
        mode,
        launcher,
        runner,
        world_size,
        fault,
        strikers,
        moment,
        peers,
        expected_failure=rng.random() < 0.1,
        strict=fault in LEAVING_PROCESSES and rng.random() < 0.3,
        retries=mode in ("pooled", "kept") and rng.random() < 0.5,
        prelude=rng.random() < 0.8,
    )


def possible(case: FuzzCase) -> bool:
    """Whether the case makes sense in its mode, and has a verdict that the documents decide."""
    if case.fault not in _POSSIBLE[case.mode]:
        return False
    if case.moment == "import":
        on_fresh = case.mode == "fresh" and case.runner == "unittest" and not case.expected_failure
        return on_fresh and case.fault in _ON_IMPORT
    if case.moment == "exit":
        # An exception of an exit function is printed and ignored, as in any Python program.
        return case.mode == "fresh" and case.fault in (*DYING, *HANGING, "nothing")
    if case.fault in NEVER_RUN or case.fault == "sub_test_fails_then_skip":
        return case.moment == "body" and not case.expected_failure
    if case.fault in (*GARBLING, "fork_returns") and case.moment not in ("late", "tear-down", "cleanup"):
        return False  # what the rank does afterwards, with its peers too, would be anybody's guess
    if case.mode == "local":
        return 2 <= case.world_size <= 4
    if case.launcher == "spawn" and case.world_size > 3:
        return False  # ten seconds of starting interpreters
    if case.mode == "kept":
        return case.peers not in ("store", "busy")  # these need a file of the test's own
    # A thread that runs Python keeps the run token, so the ranks that it waits for would never run.
    return case.mode != "threads" or case.peers != "busy"
