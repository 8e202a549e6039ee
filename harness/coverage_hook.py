"""Coverage in processes that the harness forks or starts: without it they would not count.

``coverage run run_tests.py`` measures the controller. ``export`` hands its configuration to children through
the environment, ``start_in_child`` begins a measurement of a forked or fresh process's own, and ``flush``
writes its data file before the process leaves by ``_exit``. Where nobody asked for coverage all of it costs
nothing, and ``coverage`` is not imported.

Uses coverage.py's protocol for subprocesses (coverage 7.10: ``COVERAGE_PROCESS_CONFIG``; before that and for
users who set it up themselves ``COVERAGE_PROCESS_START``).
"""

from __future__ import annotations

import os
import signal
import sys
import types
from collections.abc import MutableMapping
from typing import Any

CONFIG = "COVERAGE_PROCESS_CONFIG"
START = "COVERAGE_PROCESS_START"


def export(environ: MutableMapping[str, str]) -> bool:
    """Puts the running measurement's configuration into a child's environment; False where there is none."""
    current = _current()
    if current is None:
        return START in environ or CONFIG in environ
    if hasattr(current.config, "serialize"):
        environ[CONFIG] = current.config.serialize()
    elif current.config.config_file:
        environ[START] = current.config.config_file
    return True


def start_in_child() -> None:
    """Starts measuring this process, which was just forked or started; does nothing unless somebody asked.

    What the parent had measured before the fork stays the parent's. SIGTERM writes the data before it ends
    the process.
    """
    inherited = _current()
    if inherited is None and START not in os.environ and CONFIG not in os.environ:
        return
    if inherited is not None:
        export(os.environ)
        inherited._auto_save = False  # the parent's data: it writes that itself
        inherited.stop()
    _start()
    signal.signal(signal.SIGTERM, _flush_and_end)


def flush() -> None:
    """Writes this process's data file, where it is measured. For the moment before ``os._exit``."""
    current = _current()
    if current is not None:
        current.stop()
        current.save()


def _start() -> None:
    import coverage

    config_file = f":data:{os.environ[CONFIG]}" if CONFIG in os.environ else os.environ[START]
    measurement = coverage.Coverage(config_file=config_file, data_suffix=True)
    measurement._warn_no_data = False  # a child that ran no line of the measured sources is no mistake
    measurement._auto_save = True  # by its exit handler, where a process comes to run these before flush()
    measurement._warn_unimported_source = False
    measurement._warn_preimported_source = False
    measurement.start()


def _current() -> Any:
    """The measurement that runs in this process, or None."""
    module = sys.modules.get("coverage")
    return module.Coverage.current() if module is not None and hasattr(module, "Coverage") else None


def _flush_and_end(signum: int, frame: types.FrameType | None) -> None:
    flush()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
