"""Which filters of warnings a test's ranks get: those that the user has given pytest for the test."""

from __future__ import annotations

import pytest

from harness.ranks.warning_filters import Filter
from harness.system.runner_settings import filters_given_to_pytest, parsed


def of_item(item: pytest.Item) -> list[Filter]:
    """Of ``filterwarnings`` in the settings, ``-W`` and marks, in pytest's order; [] without its plugin."""
    if not item.config.pluginmanager.has_plugin("warnings"):
        return []
    of_marks = [each for mark in item.iter_markers("filterwarnings") for each in mark.args]
    return [*filters_given_to_pytest(item.config), *(parsed(each, escape=False) for each in of_marks)]
