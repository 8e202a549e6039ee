"""``PROGRAMS``: the programs of all modules of this package, by name."""

from __future__ import annotations

from suites.selftest.communication.programs import (
    arguments,
    buffers,
    compiled,
    groups,
    messages,
    modules,
    ordering,
    python_groups,
    remote_calls,
    right_waits,
    right_work,
    sentences,
    stores,
)
from suites.selftest.communication.programs.program import Table, by_name

_TABLES: tuple[Table, ...] = (
    *(ordering.TABLE, groups.TABLE, messages.TABLE, stores.TABLE, modules.TABLE),
    *(arguments.TABLE, compiled.TABLE, buffers.TABLE, python_groups.TABLE),
    *(right_waits.TABLE, right_work.TABLE, remote_calls.TABLE, sentences.TABLE),
)
PROGRAMS = by_name(*_TABLES)
