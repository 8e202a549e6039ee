"""Which tests run where a command line names none.

They are those of ``test-paths`` in the project's configuration; else, in the harness's own tree and for its
``run_tests.py``, the standard suites; else all tests below the working directory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

# What `run_tests.py` of this tree is started as.
SCRIPT = "run_tests.py"


def default_names(test_paths: Sequence[str], cwd: Path, root: Path, program: str) -> tuple[str, ...]:
    """The names that stand for the tests of a run without names; none for the standard suites.

    ``test_paths`` are those of the configuration file, absolute; ``root`` is the tree that holds the harness,
    and ``program`` what the run was started as.
    """
    if test_paths:
        return tuple(os.path.relpath(path, cwd) for path in test_paths)
    started = Path(program)
    by_script = started.name == SCRIPT and started.resolve().parent == root
    in_tree = cwd.resolve().is_relative_to(root) and (root / SCRIPT).is_file()
    return () if by_script or in_tree else (".",)
