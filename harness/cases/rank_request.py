"""``RankRequest``: what a test asks of its ranks, as the ``Job`` that a rank mode starts.

How many there are, what each imports and runs, the deadline, and which tests can share pooled ranks. Classes
of cases override single answers. ``multiprocess`` starts the ranks and joins them.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from harness import coverage_hook, environment
from harness.cases import defaults
from harness.cases.in_rank import CaseInRank
from harness.conformance import cells
from harness.errors import LaunchError, UsageError
from harness.protocol import Launch
from harness.ranks.deadlines import start_wait_of
from harness.ranks.job import Job
from harness.ranks.processes import module_import
from harness.ranks.processes.leading_imports import leading_imports
from harness.requirements import Requirements, get_required_hosts, get_required_world_size, requirements_of
from harness.settings import Settings
from harness.system import intra_op_threads
from harness.system.scratch import scratch

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


class RankRequest(CaseInRank):
    """The part of a case that says what its ranks are to do."""

    # Whether each rank imports the test's module itself, as a new process would, and not a server for all.
    import_in_ranks = False
    # Whoever runs a test once more says so here: ".attempt2" keeps the logs of the first attempt's ranks.
    rank_log_suffix = ""
    # What runs the test sets these for it: its ranks' filters of warnings, encoded (ranks.warning_filters).
    rank_warning_filters: Sequence[str] = ()
    _wants: Requirements | None = None
    # How a test of this kind of case makes its process group, for the error of one that has made none.
    what_makes_a_group = (
        'dist.init_process_group("gloo", store=dist.FileStore(self.file_name, self.world_size), '
        "rank=self.rank, world_size=self.world_size) in the test, or in setUpRank, makes it"
    )

    # -- what a subclass may override

    @property
    def world_size(self) -> int:
        """The number of ranks: what ``requires_world_size`` says of the test, else upstream's default.

        That is 4, or the number of GPUs where that is 2 or 3.
        """
        return get_required_world_size(self, defaults.world_size())

    def _current_test_name(self) -> str:
        return self._testMethodName

    def _pool_key(self) -> Hashable:
        """A key that tests must share to use the same pooled ranks; None adds no condition."""
        return None

    def _keeps_group(self) -> bool:
        """Whether pooled ranks keep their process group from test to test."""
        return False

    def _imported_in_ranks(self) -> bool:
        """Whether each rank imports the test's module itself."""
        return self.import_in_ranks

    def _run_arguments(self, world_size: int) -> dict[str, Any]:
        """Keyword arguments of ``_run`` in the ranks, which must be JSON values."""
        return {"fake_pg": getattr(self, "fake_pg", False)}

    def _imports_of_ranks(self) -> list[str]:
        """The modules that this test's ranks use and that are imported before they start.

        Those of the harness, and where ranks import the test's module themselves, what that imports first.
        """
        requirements = self._requirements()
        of_module = leading_imports(type(self).__module__) if self._imported_in_ranks() else ()
        return [*(["torch"] if requirements.needs_torch else []), *requirements.imports, *of_module]

    def _timeout_s(self, settings: Settings) -> float:
        return settings.deadline_s(self._requirements().timeout_s)

    def _requirements(self) -> Requirements:
        if self._wants is None:
            self._wants = requirements_of(type(self), self._testMethodName)
        return self._wants

    def _communication_check(self) -> str | None:
        """How what is wrong with the ranks' communication is taken: by a level, or None for the default."""
        return self._requirements().communication_check or environment.settings().comm_check or None

    # -- what is made of it

    def _job(self, settings: Settings, timeout_s: float | None, values: str) -> Job:
        """The test as a job, with its own deadline or one of ``timeout_s`` seconds.

        ``values`` is the directory in which ranks keep their numbers for comparison, "" where they do not.
        """
        request = self._request(settings)
        more: dict[str, Any] = {
            "values": values,
            "cells": cells.directory_of(settings.conformance, self.id()),
            "start_timeout_s": timeout_s,
        }
        if any(more.values()):  # seldom, and a copy takes as long as all else here
            request = replace(request, **{name: value for name, value in more.items() if value})
        return Job(
            case=type(self),
            test_id=self.id(),
            request=request,
            settings=settings,
            timeout_s=self._timeout_s(settings) if timeout_s is None else timeout_s,
            pool_key=self._pool_key(),
            keeps_group=self._keeps_group(),
            attempt=self.rank_log_suffix,
        )

    def _number_of_ranks(self) -> int:
        """The checked ``world_size``; UsageError where the test requires another one than its class says."""
        size = _checked_world_size(self.world_size)
        wanted = self._requirements().world_size
        if wanted is not None and wanted != size:
            raise UsageError(
                f"{self.id()}: @requires_world_size({wanted}) contradicts the world_size of {size}: leave "
                "one of them out (in a class without world_size each test has the number that it requires)"
            )
        return size

    def _request(self, settings: Settings) -> Launch:
        case = type(self)
        if "<locals>" in case.__qualname__:
            raise LaunchError(
                f"{case.__qualname__} is defined inside a function, where ranks cannot import it: define "
                "test classes at the top of a module"
            )
        world_size = self._number_of_ranks()
        environ = environment.environment()
        return Launch(
            module=module_import.reference(case.__module__),
            qualname=case.__qualname__,
            method=self._current_test_name(),
            world_size=world_size,
            file_name=self.file_name,
            environ=coverage_hook.exported(environ),
            cwd=module_import.working_directory(),
            sys_path=[p for p in sys.path if isinstance(p, str)],
            argv=list(sys.argv),
            threads=intra_op_threads.of_rank(environ, world_size),
            scratch=scratch().path,
            start_timeout_s=start_wait_of(settings) + self._timeout_s(settings),
            imports=self._imports_of_ranks(),
            preload=not self._imported_in_ranks(),
            kwargs=self._run_arguments(world_size),
            least_hosts=get_required_hosts(self) if settings.hosts else 1,
            warning_filters=list(self.rank_warning_filters),
        )


def _checked_world_size(value: Any) -> int:
    try:  # torch's own tests take it from the environment, as text
        size = int(value) if isinstance(value, str) else operator.index(value)
    except (TypeError, ValueError):
        size = 0
    if size < 1:
        raise ValueError(f"world_size is {value!r}: it has to be a whole number of ranks, 1 or more")
    return size
