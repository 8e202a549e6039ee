"""The state of Python in this process that code may change, item by item; ``torch_state`` is that of torch.

A process that is forked into ranks has to be as a new process would be that imports the test's module. Most
of this state belongs to neither: what modules set when they are imported is there in a new process, too. So
it is compared with that of the moment in which the last test class was made, while its module was imported.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import locale
import logging
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, NamedTuple

from harness.system.garbage import PAUSE
from harness.system.runner_settings import own_filters, own_handlers, own_hook, set_filters


class Item(NamedTuple):
    """A part of the state: its name, how to read it, and its value in a new process as text.

    ``new`` is None where imports have a part in it, so that a new process's value is that after the imports.
    ``restore`` gives a fork back a value that was read; None where that is not possible.
    """

    name: str
    read: Callable[[], Any]
    new: str | None = None
    restore: Callable[[Any], None] | None = None


def values() -> dict[str, Any]:
    """The value of each of ``ITEMS``, by name."""
    return {item.name: item.read() for item in ITEMS}


def changed(now: dict[str, Any], imported: dict[str, Any] | None) -> tuple[str, ...]:
    """The names of what differs from a new process, and cannot be restored.

    ``now`` and ``imported`` are what ``values`` is, and was after the imports; None where that is not known,
    and then only the items count whose value in a new process is known.
    """
    return tuple(item.name for item in ITEMS if item.restore is None and _differs(item, now, imported))


def restore(imported: dict[str, Any]) -> None:
    """Makes this fork, as far as possible, what its parent was when ``values`` were these."""
    for item in ITEMS:
        if item.restore is not None:
            item.restore(imported[item.name])


def _differs(item: Item, now: dict[str, Any], imported: dict[str, Any] | None) -> bool:
    if item.new is not None:
        return str(now[item.name]) != item.new
    return imported is not None and bool(now[item.name] != imported[item.name])


def _set_showwarning(function: Callable[..., None]) -> None:
    warnings.showwarning = function


def _hooks() -> tuple[Any, ...]:
    return tuple(own_hook(module, name) for module, name in _HOOKS)


def _set_hooks(hooks: tuple[Any, ...]) -> None:
    for (module, name), hook in zip(_HOOKS, hooks, strict=True):
        setattr(module, name, hook)


_HOOKS = ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook"), (sys, "displayhook"))


def _tracing() -> list[str]:
    """Functions that trace or profile this process; coverage starts anew in each rank."""
    functions = (sys.gettrace(), sys.getprofile(), *(getattr(threading, n, None) for n in _OF_THREADS))
    homes = [type(f).__module__ if not hasattr(f, "__code__") else f.__module__ for f in functions if f]
    return [home for home in homes if home.partition(".")[0] not in ("coverage", "harness")]


_OF_THREADS = ("_trace_hook", "_profile_hook")


def _signal_handlers() -> list[str]:
    return [s.name for s in signal.Signals if s not in _SETTLED and callable(signal.getsignal(s))]


# Those that a rank sets itself. One that is ignored stays so in a new program, too.
_SETTLED = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)


def _loggers() -> dict[str, Any]:
    """What each logger does, without torch's own: torch makes and sets them as its parts are imported."""
    named = logging.Logger.manager.loggerDict.items()
    mine = {n: one for n, one in named if isinstance(one, logging.Logger) and n.partition(".")[0] != "torch"}
    settings = {name: _logger(one) for name, one in {**mine, "": logging.root}.items()}
    return {name: each for name, each in settings.items() if each != _PLAIN_LOGGER}


def _logger(logger: logging.Logger) -> tuple[Any, ...]:
    handlers = [(handler, handler.level, handler.formatter) for handler in own_handlers(logger)]
    return (logger.level, logger.disabled, logger.propagate, handlers, list(logger.filters))


_PLAIN_LOGGER: tuple[Any, ...] = (logging.NOTSET, False, True, [], [])


def _logging() -> tuple[Any, ...]:
    return (logging.root.manager.disable, logging.raiseExceptions, logging.lastResort, _loggers())


def _set_logging(value: tuple[Any, ...]) -> None:
    logging.root.manager.disable, logging.raiseExceptions, logging.lastResort, loggers = value
    for name in {*loggers, *_loggers()}:
        logger = logging.getLogger(name)
        level, logger.disabled, logger.propagate, handlers, filters = loggers.get(name, _PLAIN_LOGGER)
        logger.setLevel(level)
        logger.handlers[:], logger.filters[:] = [each for each, *_ in handlers], filters
        for handler, of_handler, formatter in handlers:
            handler.level, handler.formatter = of_handler, formatter


def _context_variables() -> dict[str, Any]:
    """The values of context variables, among which are the settings of torch's compiler, by identity."""
    return {f"{v.name} {id(v)}": id(value) for v, value in copy_context().items() if v.name not in _OWN_ITEM}


_OWN_ITEM = ("decimal_context", "numpy.ufunc.extobj", "numpy_extobj_contextvar")


def _decimal() -> str:
    """What the context of decimal says, without the flags that calculations raise; "" where that is new."""
    decimal = sys.modules.get("decimal")
    if decimal is None:
        return ""
    context = decimal.getcontext().copy()
    context.clear_flags()
    return "" if str(context) == _DECIMAL else str(context)


_DECIMAL = (
    "Context(prec=28, rounding=ROUND_HALF_EVEN, Emin=-999999, Emax=999999, capitals=1, clamp=0, flags=[], "
    "traps=[InvalidOperation, DivisionByZero, Overflow])"
)


def _numpy_errors() -> dict[str, str]:
    """How numpy handles errors, where that is not as it begins."""
    numpy = sys.modules.get("numpy")
    now = numpy.geterr() if numpy is not None and hasattr(numpy, "geterr") else _NUMPY_ERRORS
    return {name: value for name, value in now.items() if _NUMPY_ERRORS.get(name) != value}


_NUMPY_ERRORS = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}


def _event_loop() -> Any:
    """The event loop that was set for this thread; a fork would share its selector with its parent."""
    events = sys.modules.get("asyncio.events")
    policy = getattr(events, "_event_loop_policy", None)
    return getattr(getattr(policy, "_local", None), "_loop", None)


def _loop_policy() -> Any:
    """The policy that makes event loops, where one was set: that of another loop's library, say."""
    policy = getattr(sys.modules.get("asyncio.events"), "_event_loop_policy", None)
    return None if type(policy).__module__.partition(".")[0] == "asyncio" else policy


def _set_loop_policy(policy: Any) -> None:
    events = sys.modules.get("asyncio.events")
    if events is not None:
        vars(events)["_event_loop_policy"] = policy


def _flushes_denormals() -> bool:
    """Whether this thread's processor takes very small numbers for 0 (``torch.set_flush_denormal``)."""
    return sys.float_info.min / 2 == 0.0


def _limits() -> tuple[Any, ...]:
    return (
        sys.getswitchinterval(),
        _int_digits()[0](),
        getattr(sys, "tracebacklimit", None),
        socket.getdefaulttimeout() if (socket := sys.modules.get("socket")) is not None else None,
    )


def _int_digits() -> tuple[Callable[[], int], Callable[[int], object]]:
    """The functions for the largest integer that is read or written; early releases of 3.10 lack them."""
    getter = getattr(sys, "get_int_max_str_digits", lambda: 0)
    return getter, getattr(sys, "set_int_max_str_digits", lambda digits: digits)


def _set_limits(limits: tuple[Any, ...]) -> None:
    interval, digits, traceback, timeout = limits
    sys.setswitchinterval(interval)
    _int_digits()[1](digits)
    if (socket := sys.modules.get("socket")) is not None:
        socket.setdefaulttimeout(timeout)
    if traceback is not None:
        sys.tracebacklimit = traceback
    elif hasattr(sys, "tracebacklimit"):
        del sys.tracebacklimit


def _set_formatwarning(function: Callable[..., str]) -> None:
    warnings.formatwarning = function


def _makers() -> tuple[Any, ...]:
    return (logging.getLoggerClass(), logging.getLogRecordFactory())


def _set_makers(makers: tuple[Any, ...]) -> None:
    logging.setLoggerClass(makers[0])
    logging.setLogRecordFactory(makers[1])


def _temporary() -> str | None:
    return getattr(sys.modules.get("tempfile"), "tempdir", None)


def _set_temporary(directory: str | None) -> None:
    if (tempfile := sys.modules.get("tempfile")) is not None:
        vars(tempfile)["tempdir"] = directory


def _traced_frames() -> int:
    """How many frames of each allocation tracemalloc notes; 0 where it notes none."""
    tracemalloc = sys.modules.get("_tracemalloc")
    return tracemalloc.get_traceback_limit() if tracemalloc is not None and tracemalloc.is_tracing() else 0


def _set_traced_frames(frames: int) -> None:
    if frames != _traced_frames():
        tracemalloc = sys.modules["_tracemalloc"]
        tracemalloc.stop()
        if frames:
            tracemalloc.start(frames)


def _leave_stack_signals(_: None) -> None:
    """Has no signal write stacks (``faulthandler.register``); Python does not tell whether one does.

    A rank registers the harness's own afterwards.
    """
    for each in signal.Signals:
        with contextlib.suppress(RuntimeError):  # a crash's signal, which cannot be registered
            faulthandler.unregister(each)


def _gc() -> tuple[Any, ...]:
    return (PAUSE.thresholds(), gc.get_debug(), list(gc.callbacks))


ITEMS: tuple[Item, ...] = (
    Item("filters of warnings", own_filters, restore=set_filters),
    Item("warnings.showwarning", lambda: warnings.showwarning, restore=_set_showwarning),
    Item("warnings.formatwarning", lambda: warnings.formatwarning, restore=_set_formatwarning),
    Item("logging", _logging, restore=_set_logging),
    Item("classes of loggers and records", _makers, restore=_set_makers),
    Item("limits of the interpreter", _limits, restore=_set_limits),
    Item("directory for temporary files", _temporary, restore=_set_temporary),
    Item("policy of event loops", _loop_policy, restore=_set_loop_policy),
    Item("tracing of memory", _traced_frames, restore=_set_traced_frames),
    Item("signals of faulthandler", lambda: None, restore=_leave_stack_signals),
    Item("hooks for exceptions", _hooks, restore=_set_hooks),
    Item("context variables", _context_variables),
    Item("thresholds of the garbage collector", _gc),
    Item("locale", lambda: locale.setlocale(locale.LC_ALL)),
    Item("signal handlers", _signal_handlers, "[]"),
    Item("tracing", _tracing, "[]"),
    Item("decimal's context", _decimal, ""),
    Item("numpy's handling of errors", _numpy_errors, "{}"),
    Item("recursion limit", sys.getrecursionlimit, "1000"),
    Item("denormal numbers", _flushes_denormals),
    Item("event loop", _event_loop, "None"),
)
