"""Which targets a run tests after its own: those of ``--also``, else that of this machine's GPUs.

On each of them only the tests that take an accelerator there run again: the others have run. Each has a
directory, a journal and reports of its own, so a test's id is in each of them once.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.report.text import count
from harness.runner.command_line.invocation import Invocation
from harness.runner.exit_codes import ExitCode
from harness.runner.scheduling.unit import Unit
from harness.settings import target_given
from harness.system.accelerators import has_gpu

# The target of GPUs, and the modules whose tests take them of themselves.
NCCL = "suites.targets.nccl"
SUITES = "suites."
SELF_TESTS = "suites.selftest."
# Codes of a run after which nothing more is begun.
_ENDS = (ExitCode.INTERRUPTED, ExitCode.BROKEN, ExitCode.USAGE)
# Classes of tests that a line names.
MOST_NAMED = 12


def of_run(invocation: Invocation, modules: Iterable[str]) -> tuple[str, ...]:
    """The plugins of these targets; none for one that lists, is on hosts, or has a target.

    ``modules`` are those whose tests have run.
    """
    options = invocation.options
    of_suites = any(name.startswith(SUITES) and not name.startswith(SELF_TESTS) for name in modules)
    other = options.list or options.last_failed or options.drop_in or options.hosts is not None
    plain = not (other or invocation.debugger)
    own = target_given(invocation.test_environ)
    return chosen(options.also, plain=plain and not own, of_suites=of_suites, gpu=has_gpu())


def chosen(asked: Sequence[str], *, plain: bool, of_suites: bool, gpu: bool) -> tuple[str, ...]:
    """The plugins that ``--also`` names, else the one for this machine's GPUs."""
    if asked or not plain:
        return tuple(dict.fromkeys(asked)) if plain else ()
    return (NCCL,) if of_suites and gpu else ()


def on(invocation: Invocation, plugin: str) -> Invocation:
    """The same run on a plugin's target: a new one, of the tests that take an accelerator there."""
    given: dict[str, Any] = {
        "plugin": plugin,
        "also": [],
        "resume": None,
        "report_dir": _below(invocation.options, plugin),
    }
    kept = {name: value for name, value in invocation.chosen.items() if name not in given}
    return replace(
        invocation,
        options=argparse.Namespace(**{**vars(invocation.options), **given}),
        settings=replace(invocation.settings, plugin=plugin),
        chosen={**kept, "plugin": plugin},
        earlier=None,
        ids=None,
        cut=None,
        selection=(),
        on_devices=True,
    )


def _below(options: argparse.Namespace, plugin: str) -> str | None:
    directory: str | None = options.report_dir
    return None if directory is None else str(Path(directory, plugin.rpartition(".")[2]))


def run_each(
    invocation: Invocation, run: Callable[[Invocation, set[str]], int], show: Callable[[str], None] = print
) -> int:
    """Runs the invocation, then each of its further targets; returns the exit code that matters most.

    ``run`` adds the modules whose tests it runs to a set.
    Of several runs with failures ``--last-failed`` goes on with the first. A target that nobody has asked for
    and that cannot be tested here is told, and is no failure.
    """
    modules: set[str] = set()
    code = run(invocation, modules)
    codes, failed = [code], [invocation.state.latest()] if code == ExitCode.FAILED else []
    for plugin in of_run(invocation, modules):
        if codes[-1] in _ENDS or (codes[-1] == ExitCode.FAILED and invocation.policy.failfast):
            break
        show(f"\nalso on {plugin}, what takes an accelerator:")
        try:
            codes.append(run(on(invocation, plugin), set()))
        except UsageError as error:
            if invocation.options.also:
                raise
            show(f"left out: {error}")
            continue
        failed += [invocation.state.latest()] if codes[-1] == ExitCode.FAILED else []
    for directory in failed[:1]:
        if directory is not None:
            invocation.state.remember(directory)
    return together(codes)


def together(codes: Iterable[int]) -> int:
    """The exit code of several runs."""
    given = list(codes)
    for code in (ExitCode.INTERRUPTED, ExitCode.BROKEN, ExitCode.FAILED, ExitCode.OK):
        if code in given:
            return code
    return given[0]


def left_out(units: Iterable[Unit], there: int | None, target: str) -> list[str]:
    """Lines that name the tests that take more accelerators than there are, by class, and say why."""
    classes: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for unit in units:
        if there is not None and unit.demand.accelerators > there:
            classes[unit.demand.accelerators][unit.class_id.removeprefix("suites.")] += 1
    lines = []
    for needed, found in sorted(classes.items()):
        named = [f"{name} ({number})" for name, number in found.items()]
        rest = len(named) - MOST_NAMED
        names = ", ".join(named[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
        tests = count(sum(found.values()), "test")
        lines.append(
            f"left out: {tests} on {needed} ranks, each on an accelerator, since {target} has room for "
            f"{there}: {names}"
        )
    return lines
