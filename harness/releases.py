"""``torch_at_least``, ``torch_between``: tell which release of torch runs, on which expected output depends.

::

    if torch_at_least("2.13"):
        self.assertExpectedGraph(result.forward_text, \"\"\"...\"\"\")
    else:
        self.assertExpectedGraph(result.forward_text, \"\"\"...\"\"\")

``EXPECTTEST_ACCEPT=1`` then replaces the text of the release that runs.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module, metadata

from harness.errors import UsageError

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


def torch_at_least(release: str) -> bool:
    """Whether torch is of ``release`` ("2.13") or later; a pre-release counts as its release.

    UsageError where ``release`` is not major.minor.
    """
    return _numbers(_running()) >= _numbers(release)


def torch_between(since: str | None, before: str | None) -> bool:
    """Whether torch is of ``since`` or later, and older than ``before``; None is no limit."""
    begun = since is None or torch_at_least(since)
    return begun and not (before is not None and torch_at_least(before))


def _running() -> str:
    """The version of torch. Where nothing has imported it, its package says so, which saves the import."""
    if "torch" not in sys.modules:
        try:
            return metadata.version("torch")
        except metadata.PackageNotFoundError:  # a tree of sources that is on the path
            pass
    return str(import_module("torch").__version__)


def _numbers(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None:
        raise UsageError(f"{version!r} is no release of torch: write it as major.minor, '2.13'")
    return int(found[1]), int(found[2])
