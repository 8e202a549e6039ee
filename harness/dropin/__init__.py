"""Runs unmodified upstream PyTorch test files on this harness's ranks.

    python -m harness.dropin FILE_OR_MODULE [unittest arguments]
    python run_tests.py --drop-in FILE ...
    import harness.dropin; harness.dropin.install()      # first thing in a conftest.py

A test file whose cases derive from ``torch.testing._internal.common_distributed`` (directly, or through
``common_dtensor``, ``common_fsdp``, ``distributed_test``, the rpc fixtures) keeps upstream's ``TestCase``
with all its assertions, seeds and skips; what starts, watches and judges its ranks is ours.

    program     a file or module as ``__main__``             classes  which classes get which ranks
    ranks       upstream's contract, on our orchestration    skips    the exit codes by which ranks skip
    barrier     the wheel's file barrier, without its naps

What differs from upstream, on purpose:

* A test passes only if *every* rank reports that it did. Upstream looks at rank 0's exit code, so that a peer
  that died or skipped alone, or ``os._exit(0)``, goes unnoticed. (``sys.exit(0)`` in a test on fresh ranks is
  a pass as upstream: tests of the wheel leave that way.)
* An ``AssertionError`` in a rank is a FAIL, not an ERROR; a skip has the test's own reason.
* Cleanups that a test adds in a rank run there, and one that fails fails the test.
* A failure in a ``MultiProcContinuousTest`` does not turn the rest of its class into skips; its ranks are
  replaced.
* A case whose ``setUp`` starts no ranks gets them when its method runs; upstream runs nothing and passes.
* Ranks do not set ``TORCH_SHOW_CPP_STACKTRACES``, which makes every C++ error's message pages long and costs
  seconds; set it yourself to have it back.
* Threaded cases stay upstream's, and so does a case that overrides or calls ``_start_processes``.
"""

from __future__ import annotations

import os

from harness.settings import EnvVar


def install() -> tuple[str, ...]:
    """Gives upstream's multi-process cases our ranks, in this process and in what is forked from it.

    Call it before or after the test files are imported, any number of times. Imports torch. Returns, and on
    the first call prints on standard error, a line for each class that stays upstream's because this torch
    lacks a name that it would need.

    Sets ``HARNESS_DROP_IN=1``, by which processes that are started afresh know that they have to do the same.
    """
    from harness.dropin import classes

    os.environ[EnvVar.DROP_IN] = "1"
    return classes.install()
