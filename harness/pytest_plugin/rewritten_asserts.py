"""Makes ``assert`` statements of test modules tell their values in ranks, as they do under pytest.

Importing this module is what does it, for the modules that a process imports afterwards. The process of
pytest and its forks rewrite those statements already; the server of ranks that is a new interpreter does not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any
from unittest import mock

import pytest
from _pytest.assertion import install_importhook, rewrite, util

# pytest's configuration: that of the run in its process and forks, else one without plugins and conftest.
_config: pytest.Config | None = None


def keep(config: pytest.Config) -> None:
    """Keeps the configuration of the run for the forks of this process, which have no test of pytest's."""
    global _config
    _config = config
    util._reprcompare = _explanation  # in its own tests pytest puts another one in place


def _explanation(operator: str, left: object, right: object) -> str | None:
    assert _config is not None
    found: list[Iterable[str] | None] = _config.hook.pytest_assertrepr_compare(
        config=_config, op=operator, left=left, right=right
    )
    for lines in found:
        text = "\n~".join(line.replace("\n", "\\n") for line in lines or ())
        if text:
            return text.replace("%", "%%")  # what pytest makes of an assert statement formats it
    return None


def _rewrites(finder: Any) -> bool:
    return isinstance(finder, rewrite.AssertionRewritingHook)


if not any(map(_rewrites, sys.meta_path)):
    with mock.patch.dict(os.environ, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTEST_PLUGINS=""):
        keep(pytest.Config.fromdictargs({}, ["--noconftest", "-p", "no:cacheprovider", "-c", os.devnull]))
    assert _config is not None
    install_importhook(_config)
