"""``Invocation``: what the options, the environment and an earlier run mean together for one run."""

from __future__ import annotations

import argparse
import os
import random
import shlex
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness import coverage_hook
from harness.configuration import variables
from harness.configuration.configuration import Configuration
from harness.conformance.cells import DIRECTORY as CELLS
from harness.errors import UsageError
from harness.outcomes import Status
from harness.report.base import RunInfo
from harness.report.summary import summarise
from harness.runner import bazel, journal, run_directory, shard_variables
from harness.runner.collection import shard_of
from harness.runner.journal import EarlierRun
from harness.runner.messages import Fork
from harness.runner.option_values import given, of_file, wrong_option
from harness.runner.options import TREE_PROGRAM, parse
from harness.runner.plan import Policy
from harness.runner.shard_variables import Shard
from harness.runner.time_limits import TimeLimits, time_limits
from harness.settings import LARGEST_SEED, VERDICT_VARIABLES, EnvVar, Settings, timeout_given
from harness.system import accelerators, processors

# Options that decide whether a test fails, which ``--last-failed`` takes over. Others, such as where the
# run's files go, are not taken over.
CONDITIONS = (
    *("drop_in", "slow", "ranks", "strict", "examples"),
    *("timeout", "timeout_multiplier", "seed", "isolate"),
    *("backend", "device", "plugin", "config", "no_config", "profile"),
)
# Slurm counts in it how often it has started the job again.
RESTART_COUNT = "SLURM_RESTART_COUNT"


@dataclass(frozen=True, slots=True)
class Invocation:
    """The resolved options and environment of a run, with what it takes over from an earlier run.

    ``environ`` is this process's environment, on top of the variables that decided the earlier run's
    verdicts, on top of those that the configuration file stands for, ``from_file``. ``configuration`` is what
    that file says, and ``chosen`` are the options that the command line or the earlier run gave a value.
    ``shuffle`` is the seed of a random order, None for the order of discovery. ``ids`` are the only tests
    that the earlier run leaves to this one, None for no limit; ``cut`` is the shard that they are from, and
    ``selection`` all tests of which they are a part. ``ends_s`` is when the whole run has to end, on the
    monotonic clock; None where nothing limits it. With ``on_devices`` only tests that take an accelerator of
    the target run.
    """

    options: argparse.Namespace
    argv: tuple[str, ...]
    environ: Mapping[str, str]
    cwd: Path
    settings: Settings
    jobs: int
    shuffle: int | None
    earlier: EarlierRun | None
    ids: tuple[str, ...] | None
    cut: tuple[int, int] | None
    selection: tuple[str, ...] = ()
    configuration: Configuration = field(default_factory=Configuration)
    chosen: Mapping[str, Any] = field(default_factory=dict)
    from_file: frozenset[str] = frozenset()
    ends_s: float | None = None
    on_devices: bool = False

    def is_over(self, now_s: float) -> bool:
        """Whether the whole run's time limit has passed."""
        return self.ends_s is not None and now_s >= self.ends_s

    @property
    def debugger(self) -> bool:
        """True where a debugger may need the terminal: one test runs at a time, without deadlines."""
        return bool(self.options.pdb) or self.settings.pdb_rank is not None

    @property
    def streams(self) -> bool:
        """True where tests write directly to this process's standard output."""
        return self.debugger or self.settings.rank_output != "capture"

    @property
    def upstream_deadlines(self) -> bool:
        """True where upstream's deadlines hold: in a drop-in run for which no timeout is set."""
        given = self.options.timeout is not None or timeout_given(self.environ)
        return bool(self.options.drop_in) and not given

    @property
    def state(self) -> run_directory.StateDirectory:
        """The state directory, which holds caches and earlier runs."""
        return run_directory.state(self.environ, self.cwd)

    @property
    def policy(self) -> Policy:
        """The number of repeats and reruns, and whether a failure ends the run."""
        options = self.options
        repeats = options.repeat or (0 if options.until_fail else 1)
        return Policy(repeats, options.reruns, options.failfast or options.until_fail)

    @property
    def limits(self) -> TimeLimits:
        """The time limits of tests."""
        return time_limits(self.settings, upstream_deadlines=self.upstream_deadlines, debugger=self.debugger)

    @property
    def group_limits(self) -> dict[str, int]:
        """The largest number of tests of each group that run at once."""
        return {name: limit.value for name, limit in self.configuration.groups.items()}

    @property
    def test_environ(self) -> dict[str, str]:
        """The environment of the zygote and of tests: the settings as variables, and this run's coverage.

        It has no shard variables: the controller has selected the shard's tests, and a test module must not
        be split a second time. Nor has it what Bazel asks of this run.
        """
        environ = bazel.without_bazel(shard_variables.without_shard(self.environ))
        environ.update(self.settings.to_environ())
        environ.update(accelerators.keep_forkable(environ))
        coverage_hook.export(environ)
        environ.pop(EnvVar.TEST_TIMEOUT, None)  # of the test that started this run, if one has
        if self.options.drop_in:
            environ[EnvVar.DROP_IN] = "1"
        if self.upstream_deadlines:
            environ[EnvVar.TIMEOUT] = ""
        if self.options.profile:
            environ[EnvVar.PROFILE] = self.options.profile
        if self.options.no_config or self.options.config:
            path = self.configuration.path
            environ[EnvVar.CONFIG] = str(path) if path is not None else variables.NO_FILE
        return environ

    def fork_options(self, directory: Path | None) -> Fork:
        """The ``Fork`` message with the options of every worker, without a name and items.

        ``directory`` is the run's, None where it has none.
        """
        options = self.options
        environ = {EnvVar.WORKER: "1"}
        if directory is not None and not self.settings.log_dir:
            environ[EnvVar.LOG_DIR] = str(directory / run_directory.LOGS)
        if directory is not None and "conformance" in options.report:
            environ[EnvVar.CONFORMANCE] = str(directory / CELLS)
        return Fork(
            worker="",
            items=[],
            marker="",
            stream=self.streams,
            terminal=self.debugger,
            post_mortem=options.pdb,
            stop_at_failure=self.policy.failfast,
            threads=processors.share(self.jobs),
            environ=environ,
        )

    @property
    def command(self) -> str:
        """What a user types to run some of these tests again under the same conditions."""
        started = sys.argv[0] or TREE_PROGRAM
        words = ["python", shlex.quote(started)] if started.endswith(".py") else [os.path.basename(started)]
        for option, name in (("--config", self.options.config), ("--profile", self.options.profile)):
            words += [option, shlex.quote(name)] if name is not None else []
        words += ["--no-config"] if self.options.no_config else []
        settings, usual = self.settings, Settings()
        if settings.seed != usual.seed:
            words += ["--seed", str(settings.seed)]
        if settings.timeout_s != usual.timeout_s and not self.upstream_deadlines:
            words += ["--timeout", f"{settings.timeout_s:g}"]
        if settings.timeout_multiplier != usual.timeout_multiplier:
            words += ["--timeout-multiplier", f"{settings.timeout_multiplier:g}"]
        if settings.examples is not None:
            words += ["--examples", str(settings.examples)]
        if settings.ranks is not None:
            words += ["--ranks", settings.ranks]
        if settings.slow:
            words.append("--slow")
        if settings.strict:
            words.append("--strict")
        if self.options.drop_in:
            words.append("--drop-in")
        for option, value in (
            ("--backend", settings.backend),
            ("--device", settings.device),
            ("--plugin", settings.plugin),
        ):
            words += [option, value] if value is not None else []
        return " ".join(words)

    @property
    def given(self) -> dict[str, Any]:
        """The options that are not at their defaults or were chosen, as the journal keeps them."""
        return {**_changed(self.options), **self.chosen}

    @property
    def deciding(self) -> dict[str, str]:
        """The set environment variables that decide verdicts."""
        return {name: self.environ[name] for name in VERDICT_VARIABLES if name in self.environ}


def resolve(options: argparse.Namespace, argv: Sequence[str], environ: Mapping[str, str]) -> Invocation:
    """The invocation of a command line. UsageError where options exclude each other.

    With ``--resume``, and where Slurm starts a job again whose ``--report-dir`` has its journal, options and
    variables are those of the earlier run, unless they are given now, and the process changes to the earlier
    run's working directory. With ``--last-failed``, only the options and variables that decide verdicts are
    taken over, and the names of tests where none are given.
    """
    ids, cut = None, None
    own, chosen = dict(environ), given(argv)
    configuration = _configuration(options, own)
    selection: tuple[str, ...] = ()
    chosen, limit_s = bazel.with_options(chosen, environ), bazel.time_limit_s(environ)
    earlier = _earlier(_with_file(configuration, chosen), argv, {**configuration.variables, **own})
    if earlier is not None:
        before = earlier.info
        _check_possible(before.options)
        chosen = {**_kept(before.options, vars(options)), **chosen, "resume": str(earlier.directory)}
        chosen.pop("last_failed", None)
        own = {**before.environ, **own}
        _go_to(Path(before.cwd))
        ids, cut, selection = before.tests, before.shard, before.selection
    elif options.last_failed:
        last = _last({**configuration.variables, **own}, "--last-failed")
        before, ids = last.info, _failed(last)
        _check_possible(before.options)
        chosen = {**_kept(before.options, [*CONDITIONS, "names", "suites"]), **chosen}
        own = {**before.environ, **own}
        cut, selection = _cut(options, before), before.selection or before.tests
    if ids is not None:  # by the file and the profile of that run
        configuration = _configuration(argparse.Namespace(**{**vars(options), **chosen}), own)
    variables.check(own, configuration.other_variables)
    options = _with_file(configuration, chosen)
    if options.until_fail and "reruns" not in chosen:
        options.reruns = 0  # as _check of options.py has it
    environ = {**configuration.variables, **own}
    invocation = Invocation(
        options=options,
        argv=tuple(argv),
        environ=environ,
        cwd=_working_directory(),
        settings=_settings(options, environ),
        jobs=options.jobs or processors.available(),
        shuffle=_shuffle(options, earlier),
        earlier=earlier,
        ids=ids,
        cut=cut,
        selection=selection,
        configuration=configuration,
        chosen=chosen,
        from_file=frozenset(configuration.variables) - own.keys(),
        ends_s=None if limit_s is None else time.monotonic() + limit_s,
    )
    return replace(invocation, jobs=1) if invocation.debugger else invocation


def _with_file(configuration: Configuration, chosen: Mapping[str, Any]) -> argparse.Namespace:
    """The options of the command line, over those of the configuration file, over the defaults."""
    return argparse.Namespace(**{**vars(parse([])), **of_file(configuration.options), **chosen})


def _configuration(options: argparse.Namespace, environ: Mapping[str, str]) -> Configuration:
    file = variables.NO_FILE if options.no_config else options.config
    return variables.read(environ, _working_directory(), file=file or "", profile=options.profile or "")


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("the working directory has been removed: change to one that exists") from None


def _earlier(
    options: argparse.Namespace, argv: Sequence[str], environ: Mapping[str, str]
) -> EarlierRun | None:
    """The run that this one goes on with; None where this one begins."""
    cwd = _working_directory()
    if options.report_dir is not None and not options.resume:
        asked = options.resume is not None
        return (
            _begun_there(cwd / options.report_dir, options, argv, environ)
            if asked or requeued(environ)
            else None
        )
    if options.resume is None:
        return None
    directory = cwd / options.resume if options.resume else run_directory.state(environ, cwd).latest()
    if directory is None:
        raise UsageError("--resume: no earlier run is known here; name its directory: --resume=DIR")
    return _read(directory)


def _begun_there(
    directory: Path, options: argparse.Namespace, argv: Sequence[str], environ: Mapping[str, str]
) -> EarlierRun | None:
    """What the same command has begun in its ``--report-dir``; None where it begins now.

    UsageError where ``--resume`` asks for it, and another command has begun there. In a job that Slurm has
    started again, such a run is replaced, as ever, and so is one that has ended.
    """
    if not journal.begun(directory):
        return None
    earlier = _read(directory)
    same = same_run(earlier.info, argv, shard_of(options, environ))
    if options.resume is None:
        return earlier if same and not earlier.finished else None
    if not same:
        raise UsageError(f"--resume: {directory} holds another run: {earlier.info.started_as}")
    return earlier


def _read(directory: Path) -> EarlierRun:
    with journal.idle(directory) as idle:
        if not idle:
            raise UsageError(f"--resume: the run in {directory} is still going; wait until it has ended")
        return journal.read(directory.resolve())


def requeued(environ: Mapping[str, str]) -> bool:
    """True in a job that Slurm has started again, after a node failed or a job of higher priority took it."""
    count = environ.get(RESTART_COUNT, "")
    return count.isascii() and count.isdigit() and int(count) > 0


def same_run(info: RunInfo, argv: Sequence[str], shard: Shard | None) -> bool:
    """Whether a run was begun by this command line, with or without ``--resume``, and as this shard."""
    number = (shard.number, shard.total) if shard is not None else None
    words = [[word for word in each if word != "--resume"] for each in (info.argv, argv)]
    return words[0] == words[1] and info.shard == number


def failed_last(environ: Mapping[str, str], asker: str) -> tuple[str, ...]:
    """The ids of the tests that failed in the last run. UsageError, which names ``asker``, without one."""
    return _failed(_last(environ, asker))


def _last(environ: Mapping[str, str], asker: str) -> EarlierRun:
    directory = run_directory.state(environ, _working_directory()).latest()
    if directory is None:
        raise UsageError(f"{asker}: no earlier run is known here")
    return journal.read(directory)


def _changed(options: argparse.Namespace) -> dict[str, Any]:
    """The options that are not at their defaults."""
    defaults = vars(parse([]))
    return {name: value for name, value in vars(options).items() if value != defaults[name]}


def _check_possible(before: Mapping[str, Any]) -> None:
    """UsageError where the journal of the last run has an option that no command line gives that value."""
    wrong = wrong_option(before)
    if wrong is not None:
        raise UsageError(f"the journal of the last run holds no possible {wrong}; start the run anew")


def _kept(options: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: options[name] for name in names if name in options}


def _failed(run: EarlierRun) -> tuple[str, ...]:
    """The ids of the tests that failed in a run."""
    finished = (record for record in run.records if record.status is not Status.ENDED)
    return summarise(finished).failed_ids


def _cut(options: argparse.Namespace, last: RunInfo) -> tuple[int, int] | None:
    """The shard of the last run, all failures of which run here. UsageError together with ``--shard``."""
    if last.shard is not None and options.shard is not None:
        raise UsageError(
            f"--last-failed: the last run was shard {last.shard_text} already: leave out --shard"
        )
    return last.shard


def _shuffle(options: argparse.Namespace, earlier: EarlierRun | None) -> int | None:
    """The seed of a random order, None for the order of discovery.

    ``--shuffle`` without a seed takes the earlier run's seed, or draws one.
    """
    if options.shuffle != -1:
        return options.shuffle  # type: ignore[no-any-return]  # a Namespace knows no types
    if earlier is not None and earlier.info.shuffle is not None:
        return earlier.info.shuffle
    return random.SystemRandom().randrange(LARGEST_SEED + 1)


def _go_to(directory: Path) -> None:
    try:
        os.chdir(directory)
    except OSError as error:
        raise UsageError(f"--resume: that run's working directory {directory}: {error.strerror}") from None
    except ValueError as error:  # a NUL, or characters that no name of a file has
        raise UsageError(f"--resume: the journal names no working directory: {error}") from None


def _settings(options: argparse.Namespace, environ: Mapping[str, str]) -> Settings:
    """The library's settings: those of the environment, replaced by the options that are given."""
    given = {
        "timeout_s": options.timeout,
        "timeout_multiplier": options.timeout_multiplier,
        "seed": options.seed,
        "ranks": options.ranks,
        "pdb_rank": options.pdb_rank,
        "examples": options.examples,
        "slow": options.slow,
        "backend": options.backend,
        "device": options.device,
        "plugin": options.plugin,
        "placement": options.placement,
        "strict": options.strict,
        "rank_output": "stream" if options.stream else None,
    }
    settings = Settings.from_environ(environ)
    if options.pdb and settings.pdb_rank is not None:
        raise UsageError(f"--pdb and {EnvVar.PDB_RANK} exclude each other")
    if settings.launcher == "external":
        raise UsageError(
            f"{EnvVar.LAUNCHER}=external: have torchrun or srun start the test file itself on each rank "
            "(torchrun ... -m unittest test_sums), not run_tests.py, which starts processes of its own"
        )
    return replace(settings, **{name: value for name, value in given.items() if value is not None})
