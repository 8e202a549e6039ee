"""What ``run_tests.py --help`` says around the options: names of tests, exit codes, variables, files."""

from __future__ import annotations

from harness.runner.command_line import bazel
from harness.runner.exit_codes import MEANINGS
from harness.runner.selection.shard_variables import FAMILIES, SLURM, SLURM_MIN, SLURM_STEP, STATUS_FILE
from harness.variables import VARIABLES

DESCRIPTION = """\
Runs the conformance suites, or the tests that are named, in worker processes.

NAME is a suite (c10d), a module (suites.aot.test_export, aot.test_export), a path, a class, a full test
id or a path with the rest of an id behind it (tests/test_x.py::Class.method). Without names every standard
suite runs; `selftest` names the harness's own tests. In a project of your own the tests below the directory
run, or those that its configuration names. A module that uses pytest's marks, fixtures or test
functions runs through pytest.

A NAME that is the first word of another command (below), such as `run`, is that command; a suite of that name
is suites.run or ./run."""


def epilog() -> str:
    """The text below the options."""
    codes = "\n".join(f"  {code.value:<4} {meaning}" for code, meaning in MEANINGS.items())
    variables = "\n".join(f"  {v.name}={v.values}\n        {v.meaning}" for v in VARIABLES)
    pairs = "\n".join(f"  {f.set_by}: {f.index}, {f.total} (counted from {f.first})" for f in FAMILIES)
    return f"""\
other commands, each with a --help of its own:
  run               an ordinary script on ranks
  look              where the ranks below a process are (a run itself says so at SIGUSR1 or Enter)
  merge             one journal and one set of reports of the directories of many shards
  migrate           imports of torch.testing._internal become imports from harness
  target new        the draft of a backend's target, made by trying out what the backend can do
  conformance diff  what a backend has gained and lost between two reports

exit codes:
{codes}

environment variables (options win):
{variables}
  NO_COLOR, FORCE_COLOR, CI, TERM, GITHUB_ACTIONS, GITHUB_STEP_SUMMARY
        decide what the console looks like and whether GitHub gets annotations
  {bazel.FILTER}, {bazel.OUTPUTS}, {bazel.XML}, {bazel.TIMEOUT}
        what Bazel asks for: a -k, a --report-dir, the JUnit file, an end of the run in time

shards, where --shard does not say (the first pair that is set; pairs must agree):
{pairs}
  {SLURM.set_by}: {SLURM.index}, {SLURM.total} (counted from {SLURM_MIN} by {SLURM_STEP})
  {STATUS_FILE} is touched

files in the run's directory: journal.jsonl as the run goes; results.jsonl, junit.xml and what --report and
--trace ask for at its end; logs/ with what ranks printed"""
