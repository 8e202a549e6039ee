"""The two functions of a test module: ``run_tests()`` runs it as a script, ``load_tests`` selects its shard.

``run_tests()`` does so, too. With ``load_tests`` unittest's own command line does::

    from harness.module_main import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)

    if __name__ == "__main__":
        run_tests()
"""

from __future__ import annotations

import argparse
import os
import sys
import unittest
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from harness.configuration import variables
from harness.errors import UsageError
from harness.runner.command_line import bazel
from harness.runner.exit_codes import ExitCode
from harness.runner.selection.shard_variables import is_sharded, shard_from_environ
from harness.seeding import base_seed
from harness.settings import EnvVar, target_given
from harness.system import standard_output
from harness.targets.current import current


def load_tests(
    loader: unittest.TestLoader, tests: unittest.TestSuite, pattern: str | None
) -> unittest.TestSuite:
    """unittest's load_tests protocol: returns ``tests``, or those that belong to this process's shard.

    What a project's configuration file says of settings goes into the environment (docs/configuration.rst).
    Without a shard variable in the environment the suite is returned unchanged. UsageError where the
    variables contradict each other. Where the target cannot be tested (``harness.targets``), the process
    exits with code 2 and one line on stderr.
    """
    _configure(sys.argv[0])
    _check_target(sys.argv[0])
    if not is_sharded(os.environ):
        return tests
    from harness.runner.selection import shard_assignment

    return shard_assignment.filter_suite(tests, os.environ)


def run_tests(argv: Sequence[str] | None = None) -> None:
    """Runs the tests of the calling module and exits: ``unittest.main`` with two more options.

    ``--seed N`` seeds every test with N (``HARNESS_SEED``, which ranks inherit); ``--accept`` accepts outputs
    as expected ones (``EXPECTTEST_ACCEPT``). ``argv`` is a command line with the program first, by default
    this process's. The exit code is 0 if all passed, 1 if a test failed, 2 for a wrong command line, 5 if
    nothing ran; a shard may be empty, and then it is 0; 141 if nobody reads what ``--help`` prints
    (``| head``). Without names the tests are those of this process's shard; Bazel's ``--test_filter`` is a
    ``-k``. Where Bazel wants a JUnit file, or an end before its time limit, and no names are given,
    ``run_tests.py`` runs the module, which does both.
    """
    module = sys._getframe(1).f_globals["__name__"]
    program, *arguments = sys.argv if argv is None else argv
    sys.exit(standard_output.while_read(lambda: _run_module(module, program, arguments), ExitCode.NO_READER))


def _run_module(module: str, program: str, arguments: Sequence[str]) -> int:
    rest = _apply_options(program, arguments)
    words = bazel.runner_arguments(rest) if bazel.is_asked_for_more(os.environ) else None
    file = getattr(sys.modules[module], "__file__", None)
    if words is not None and module == "__main__" and file is not None:
        from harness.runner import cli

        return cli.main([file, *words])
    _configure(program)
    _check_shard(program)
    _check_target(program)
    rest = bazel.filter_arguments(rest, os.environ)
    ran = unittest.main(module=module, argv=[program, *rest], testLoader=_ShardLoader(), exit=False).result
    return exit_code(ran, sharded=is_sharded(os.environ))


class _ShardLoader(unittest.TestLoader):
    """Cuts a module down to this process's shard, where ``load_tests`` in it does not."""

    def loadTestsFromModule(self, module: ModuleType, *args: Any, **named: Any) -> unittest.TestSuite:
        """The tests of the module that belong to the shard."""
        tests = super().loadTestsFromModule(module, *args, **named)
        return tests if getattr(module, "load_tests", None) is load_tests else load_tests(self, tests, None)


def exit_code(result: unittest.TestResult, *, sharded: bool) -> ExitCode:
    """The exit code for ``result``; a skipped test counts as run."""
    if not result.wasSuccessful():
        return ExitCode.FAILED
    nothing_ran = result.testsRun == 0 and not result.skipped
    return ExitCode.NOTHING_RAN if nothing_ran and not sharded else ExitCode.OK


def _configure(program: str) -> None:
    """Takes the project's configuration file into the environment, which ranks inherit.

    Exits with code 2 and a line on stderr where the file, or an environment variable's name, is wrong.
    """
    try:
        variables.check(os.environ, variables.apply(os.environ).other_variables)
    except UsageError as error:
        print(f"{os.path.basename(program)}: error: {error}", file=sys.stderr)
        sys.exit(ExitCode.USAGE)


def _check_shard(program: str) -> None:
    """Exits with code 2 and a line on stderr where the shard variables are invalid.

    ``load_tests``, which unittest calls, could only report this as the failure of a test that does not exist.
    """
    if is_sharded(os.environ):
        try:
            shard_from_environ(os.environ)
        except UsageError as error:
            print(f"{os.path.basename(program)}: error: {error}", file=sys.stderr)
            sys.exit(ExitCode.USAGE)


def _check_target(program: str) -> None:
    """Exits with code 2 and a line on stderr where the target cannot be tested, before any test runs.

    Without a target in the environment nothing is imported.
    """
    if target_given(os.environ):
        try:
            current()
        except UsageError as error:
            print(f"{os.path.basename(program)}: error: {error}", file=sys.stderr)
            sys.exit(ExitCode.USAGE)


def _apply_options(program: str, arguments: Sequence[str]) -> list[str]:
    """Writes this module's options to the environment, which ranks inherit; returns the other arguments.

    Exits with code 2 and a line on stderr where a value cannot be used.
    """
    # unittest's parser handles --help, and its options must not be taken for abbreviations of these.
    parser = argparse.ArgumentParser(prog=os.path.basename(program), add_help=False, allow_abbrev=False)
    parser.add_argument("--seed")
    parser.add_argument("--accept", action="store_true")
    options, rest = parser.parse_known_args(arguments)
    if options.seed is not None:
        try:
            seed = base_seed({EnvVar.SEED: options.seed})
        except ValueError:
            parser.error(f"--seed {options.seed}: a whole number of 32 bits is needed")
        os.environ[EnvVar.SEED] = str(seed)
    if options.accept:
        os.environ[EnvVar.ACCEPT] = "1"
    return rest
