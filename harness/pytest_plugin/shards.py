"""Which of the collected items belong to this shard, and whether the environment's shard counts here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from harness.pytest_plugin import items as kinds
from harness.runner.scheduling import timings
from harness.runner.selection.shard_assignment import ids_of_shard
from harness.runner.selection.shard_variables import Shard, shard_from_environ, touch_status_file
from harness.settings import slow_wanted


def wanted_shard(option: str | None, environ: Mapping[str, str], *, ours: bool) -> Shard | None:
    """The shard to run; None for everything.

    ``option`` is the text of ``--shard``. The environment is asked without it, and only if ``ours``: a
    project that does not use the harness must lose no test by variables that its CI system sets. Touches
    Bazel's status file then. UsageError where the text is no shard or the variables contradict each other.
    """
    if option is not None:
        return Shard.parse(option)
    if not ours:
        return None
    touch_status_file(environ)
    return shard_from_environ(environ)


def split(
    items: Sequence[pytest.Item], shard: Shard, timings_file: str | None, environ: Mapping[str, str]
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The items of the shard and the others, each in their order.

    Only the ids, the times and the number of shards decide, so that all machines and all workers of
    pytest-xdist come to the same shards. Items with the same id are in the same shard. UsageError where the
    file with times cannot be used.
    """
    known, _ = timings.load_for(timings_file, sharded=True)
    units = {kinds.test_id(item): kinds.unit_of(item) for item in items}
    slow_runs = slow_wanted(environ)
    separate = {unit.id for unit in units.values() if unit.slow and not slow_runs}
    mine = ids_of_shard(units.values(), separate, known, shard)
    kept = [item for item in items if units[kinds.test_id(item)].id in mine]
    chosen = set(map(id, kept))
    return kept, [item for item in items if id(item) not in chosen]
