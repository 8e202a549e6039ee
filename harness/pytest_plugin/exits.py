"""The hook that skips a file that ends its import by ``sys.exit(0)``, under the drop-in.

A plugin of its own: pytest loads it with ``plugin.py``, and ``run_tests.py`` loads it alone.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from harness.dropin import exit_at_import


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Reports such a file as skipped, with the reason; any other exit ends pytest, as without the drop-in."""
    try:
        return (yield)
    except SystemExit as ending:
        why = exit_at_import.reason(ending)
        if not why:
            raise
        place = (str(collector.path), 0, f"Skipped: {why}")
        return pytest.CollectReport(collector.nodeid, "skipped", place, [])
