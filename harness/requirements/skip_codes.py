"""`TEST_SKIPS`: the exit codes by which PyTorch's tests skip from within a rank, `sys.exit(skip.exit_code)`.

A rank takes such a code for a skip with that reason; another number, equal or not, is a crash.
`raise unittest.SkipTest(reason)` does the same in fewer words.
"""

from __future__ import annotations

from typing import NamedTuple

from harness.outcomes import SkipExitCode


class TestSkip(NamedTuple):
    """An exit code that stands for a skip, and the reason."""

    exit_code: int
    message: str


TestSkip.__test__ = False  # type: ignore[attr-defined]  # pytest takes a class of this name for tests


def _skip(code: int, message: str) -> TestSkip:
    return TestSkip(SkipExitCode(code, message), message)


TEST_SKIPS = {
    "backend_unavailable": _skip(72, "this build of torch lacks the process group backend"),
    "small_worldsize": _skip(73, "needs more ranks"),
    "odd_worldsize": _skip(87, "needs an even number of ranks"),
    "no_cuda": _skip(74, "needs a cuda device"),
    "nccl": _skip(76, "needs a torch build with NCCL"),
    "skipIfRocm": _skip(78, "does not work on ROCm"),
    "no_peer_access": _skip(79, "needs GPUs that can read each other's memory"),
    "generic": _skip(86, "skipped in its ranks"),
    "importerror": _skip(88, "needs a package that is not installed"),
    "no_accelerator": _skip(89, "needs an accelerator"),
    **{
        f"multi-gpu-{count}": _skip(code, f"needs {count} accelerator{'' if count == 1 else 's'}")
        for count, code in ((1, 75), (2, 77), (3, 80), (4, 81), (5, 82), (6, 83), (7, 84), (8, 85))
    },
}
