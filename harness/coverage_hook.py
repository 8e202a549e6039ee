"""Measures coverage in the processes that the harness forks or starts, which coverage.py alone would miss.

``coverage run run_tests.py`` measures the controller. ``export`` passes its configuration to children in the
environment, ``start_in_child`` starts a measurement in a forked or new process, and ``flush`` writes that
process's data file before it ends by ``os._exit``, which coverage.py does not notice
(coveragepy/coveragepy#310). Without coverage these functions do nothing, and ``coverage`` is not imported.

This uses coverage.py's protocol for subprocesses: ``COVERAGE_PROCESS_CONFIG`` from coverage 7.10 on, and
``COVERAGE_PROCESS_START`` before that and for users who set it themselves.
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
    """Puts the configuration of the running measurement into a child's environment.

    Returns whether a child with this environment will be measured.
    """
    current = _current()
    if current is None:
        return START in environ or CONFIG in environ
    if hasattr(current.config, "serialize"):
        environ[CONFIG] = current.config.serialize()
    elif current.config.config_file:
        environ[START] = current.config.config_file
    return True


def exported(environ: dict[str, str]) -> dict[str, str]:
    """The environment for ranks: ``environ``, where this process is measured with what ``export`` adds to it.

    A rank that is a fork of this process would inherit the measurement. One that comes from a new interpreter
    has nothing but its environment.
    """
    if _current() is None:
        return environ
    added = dict(environ)
    export(added)
    return added


def start_in_child() -> None:
    """Starts to measure this process, which was just forked or started; does nothing without coverage.

    What the parent measured before the fork stays in the parent's data only. From here on SIGTERM writes the
    data before it ends the process.
    """
    inherited = _current()
    if inherited is None and START not in os.environ and CONFIG not in os.environ:
        return
    if inherited is not None:
        export(os.environ)
        inherited._auto_save = False  # the parent writes its own data
        inherited.stop()
    _start()
    signal.signal(signal.SIGTERM, _flush_and_end)


def flush() -> None:
    """Writes this process's data file if the process is measured; to be called before ``os._exit``."""
    current = _current()
    if current is not None:
        current.stop()
        current.save()


def _start() -> None:
    import coverage

    config_file = f":data:{os.environ[CONFIG]}" if CONFIG in os.environ else os.environ[START]
    measurement = coverage.Coverage(config_file=config_file, data_suffix=True)
    measurement._warn_no_data = False  # a child may run no line of the measured sources
    measurement._auto_save = True  # for a process that runs its exit handlers and never calls flush()
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
