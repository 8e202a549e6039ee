"""Runs unmodified upstream PyTorch test files on this harness's ranks.

    python -m harness.dropin FILE_OR_MODULE [unittest arguments]
    python run_tests.py --drop-in FILE ...
    import harness.dropin; harness.dropin.install()      # first thing in a conftest.py

A test file whose cases derive from ``torch.testing._internal.common_distributed`` (directly, or through
``common_dtensor``, ``common_fsdp``, ``distributed_test``, the rpc fixtures) keeps upstream's ``TestCase``
with all its assertions, seeds and skips; this harness starts, supervises and judges its ranks.

    program     runs a file or module as ``__main__``        classes  which classes get which ranks
    ranks       upstream's contract on the harness's ranks   skips    the exit codes that mean a skip
    barrier     a file barrier for the wheel's distributed_test.py that does not poll
    child_code  which modules each rank imports itself, because they do something else in a child
    before_import  has the server of their ranks forked before such a module is imported
    at_import   installs it when upstream's module is imported
    own_run_test  what becomes of a test whose class overrides upstream's run_test
    exit_at_import  which module that exits with 0 when it is imported is skipped

What differs from upstream, on purpose:

* A test passes only if *every* rank reports that it did. Upstream looks at rank 0's exit code, so that a peer
  that died or skipped (a sub-test) alone, or ``os._exit(0)``, goes unnoticed. (``sys.exit(0)`` in a test on
  fresh ranks is a pass, as it is upstream: tests of the wheel end that way.)
* An ``AssertionError`` in a rank is a FAIL, not an ERROR; a skip has the test's own reason.
* Cleanups that a test adds in a rank run there, and one that fails fails the test.
* A failure in a ``MultiProcContinuousTest`` does not turn the rest of its class into skips; its ranks are
  replaced (related: ROCm/pytorch#2623).
* A case whose ``setUp`` starts no ranks gets them when its method runs; upstream runs nothing and passes.
* A test whose ``world_size`` is 0 (a number of GPUs where there are none) is skipped; upstream runs nothing
  of it and passes.
* A file that calls ``sys.exit(0)`` while it is imported, as upstream's do where a backend is not built in,
  is skipped, with the line as its reason. As a script it succeeds; pytest alone ends by an internal error.
* A method that is an ``async def``, or has a ``yield``, is refused before its ranks start; upstream's
  ranks run nothing of it, and pass.
* Ranks do not set ``TORCH_SHOW_CPP_STACKTRACES``, which makes every C++ error's message pages long and takes
  seconds (related: pytorch/pytorch#195800, pytorch/pytorch#114651); set it yourself if you want it.
* Threaded cases run on upstream's threads, and a case that overrides or calls ``_start_processes`` on
  upstream's processes.
"""

from __future__ import annotations

import os

from harness.settings import EnvVar


def install() -> tuple[str, ...]:
    """Runs upstream's multi-process cases on the harness's ranks, in this process and in its forks.

    Call it before or after the test files are imported, any number of times. Imports torch. Returns, and on
    the first call prints on standard error, a line for each class that keeps upstream's ranks because this
    torch lacks a name that the harness needs.

    Sets ``HARNESS_DROP_IN=1``, which makes new interpreters call this too.
    """
    from harness.dropin import classes

    os.environ[EnvVar.DROP_IN] = "1"
    return classes.install()


def install_at_import() -> None:
    """Calls ``install`` as soon as upstream's module is imported: now, if it is already. Imports no torch.

    ``--drop-in`` does so: a file that does not use the module is not slower for it.
    """
    from harness.dropin.at_import import call_at_import

    os.environ[EnvVar.DROP_IN] = "1"
    call_at_import(install)
