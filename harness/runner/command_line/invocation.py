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

from harness import bazel_command, coverage_hook
from harness.configuration import variables
from harness.configuration.configuration import Configuration
from harness.conformance.cells import DIRECTORY as CELLS
from harness.errors import UsageError
from harness.runner import run_directory
from harness.runner.command_line import bazel, earlier_run
from harness.runner.command_line.option_values import given, of_file
from harness.runner.command_line.options import TREE_PROGRAM, parse
from harness.runner.journal import EarlierRun
from harness.runner.messages import Fork
from harness.runner.scheduling.plan import Policy
from harness.runner.scheduling.time_limits import TimeLimits, time_limits
from harness.runner.selection import shard_variables
from harness.setting_values import LARGEST_SEED
from harness.settings import EnvVar, Settings, timeout_given
from harness.system import accelerators, processors
from harness.variables import VERDICT_VARIABLES


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
            keeps_calls=options.trace,
            threads=processors.share(self.jobs),
            environ=environ,
        )

    @property
    def command(self) -> str:
        """What a user types to run some of these tests again under the same conditions."""
        usual = Settings().to_environ()
        changed = {n: v for n, v in self.settings.to_environ().items() if usual.get(n) != v}
        return bazel_command.command(self.environ, changed) or self._typed

    @property
    def _typed(self) -> str:
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
        if settings.chaos is not None:
            words += ["--chaos", str(settings.chaos)]
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
    known = {**configuration.variables, **own}
    earlier = earlier_run.to_go_on_with(_with_file(configuration, chosen), argv, known, _working_directory())
    if earlier is not None:
        before = earlier.info
        earlier_run.check_possible(before.options)
        chosen = {**_kept(before.options, vars(options)), **chosen, "resume": str(earlier.directory)}
        chosen.pop("last_failed", None)
        own = {**before.environ, **own}
        earlier_run.go_to(Path(before.cwd))
        ids, cut, selection = before.tests, before.shard, before.selection
    elif options.last_failed:
        last = earlier_run.last(run_directory.state(known, _working_directory()), "--last-failed")
        before, ids = last.info, earlier_run.failed(last)
        earlier_run.check_possible(before.options)
        chosen = {**_kept(before.options, [*earlier_run.CONDITIONS, "names", "suites"]), **chosen}
        own = {**before.environ, **own}
        cut, selection = earlier_run.cut_of(options, before), before.selection or before.tests
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
        settings=_settings(options, environ, earlier),
        jobs=options.jobs or processors.tests_at_once(processors.available()),
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


def _changed(options: argparse.Namespace) -> dict[str, Any]:
    """The options that are not at their defaults."""
    defaults = vars(parse([]))
    return {name: value for name, value in vars(options).items() if value != defaults[name]}


def _kept(options: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: options[name] for name in names if name in options}


def _shuffle(options: argparse.Namespace, earlier: EarlierRun | None) -> int | None:
    """The seed of a random order, None for the order of discovery.

    ``--shuffle`` without a seed takes the earlier run's seed, or draws one.
    """
    if options.shuffle != -1:
        return options.shuffle  # type: ignore[no-any-return]  # a Namespace knows no types
    if earlier is not None and earlier.info.shuffle is not None:
        return earlier.info.shuffle
    return random.SystemRandom().randrange(LARGEST_SEED + 1)


def _settings(
    options: argparse.Namespace, environ: Mapping[str, str], earlier: EarlierRun | None
) -> Settings:
    """The library's settings: those of the environment, replaced by the options that are given.

    With a number of examples and no seed the run has one of its own: the earlier run's, or a new one.
    """
    given = {
        "timeout_s": options.timeout,
        "timeout_multiplier": options.timeout_multiplier,
        "seed": options.seed,
        "ranks": options.ranks,
        "pdb_rank": options.pdb_rank,
        "examples": options.examples,
        "chaos": options.chaos,
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
    settings = replace(settings, **{name: value for name, value in given.items() if value is not None})
    if settings.examples is None or options.seed is not None or environ.get(EnvVar.SEED):
        return settings
    before = earlier.info.seed if earlier is not None else None
    drawn = random.SystemRandom().randrange(LARGEST_SEED + 1)
    return replace(settings, seed=drawn if before is None else before)
