"""``starts_alike``: which variables an interpreter reads while it starts and imports torch."""

from __future__ import annotations

from collections.abc import Mapping

# What the interpreter or torch reads once, while it starts: with another value than the server's, a command
# gets a new interpreter.
_READ_AT_START = (
    "PYTHON",
    "LD_",
    "OMP_",
    "KMP_",
    "MKL_",
    "GOMP_",
    "TORCH_",
    "PYTORCH_",
    "LC_",
    "LANG",
    "COVERAGE_",
)
_READ_LATER = (
    "PYTHONPATH",
    "PYTHONDONTWRITEBYTECODE",
    "MKL_NUM_THREADS",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "PYTORCH_TEST_WITH_SLOW",
)


def starts_alike(environ: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether an interpreter that imports torch starts in the same way with both environments."""
    names = {name for name in (*environ, *other) if name.startswith(_READ_AT_START)}
    return all(environ.get(name) == other.get(name) for name in names.difference(_READ_LATER))
