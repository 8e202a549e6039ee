"""What unittest or pytest has set in the process in which it runs tests, and a fork has to leave behind.

A new process would not have it: hooks by which pytest collects errors, handlers by which it collects what is
logged, filters and lists of warnings.
"""

from __future__ import annotations

import logging
import sys
import threading
import types
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

# An entry of ``warnings.filters``.
Filter = tuple[Any, ...]


def leave() -> None:
    """Makes this fork of a process of tests as it would be without unittest or pytest around the tests."""
    _leave_hooks()
    for handler in list(logging.root.handlers):
        if _is_pytests(handler):
            logging.root.removeHandler(handler)
    set_filters(own_filters())
    if not isinstance(warnings._showwarnmsg_impl, types.FunctionType):  # type: ignore[attr-defined]  # private
        warnings._showwarnmsg_impl = _show  # type: ignore[attr-defined]  # it was a list's append


def own_filters() -> list[Filter]:
    """The filters of warnings of this process, without those by which unittest or pytest runs tests."""
    others = _runners_filters()
    return [each for each in warnings.filters if each not in others]


def set_filters(filters: list[Filter]) -> None:
    """Makes these the filters of warnings of this process."""
    warnings.filters[:] = filters  # type: ignore[index]  # a list, whatever typeshed says
    warnings._filters_mutated()  # type: ignore[attr-defined]  # private, but only so a change is noticed


def own_hook(module: types.ModuleType, name: str) -> Any:
    """A hook such as ``sys.unraisablehook``; Python's own where pytest has set one for the time of a run."""
    hook = getattr(module, name)
    return getattr(module, f"__{name}__") if _is_pytests(getattr(hook, "func", hook)) else hook


def own_handlers(logger: logging.Logger) -> tuple[logging.Handler, ...]:
    """The handlers of a logger, without pytest's."""
    return tuple(handler for handler in logger.handlers if not _is_pytests(handler))


def redirect_handlers(to: Mapping[int, TextIO]) -> None:
    """Gives handlers of logging new streams, ``to`` by the identity of the old ones.

    Those that write into a capture of pytest's, which was made earlier, write to standard error. Others keep
    their stream: a file, say, or a stream of the module's own.
    """
    for reference in list(logging._handlerList):  # type: ignore[attr-defined]  # the only list of all handlers
        handler = reference()
        stream = vars(handler).get("stream") if isinstance(handler, logging.StreamHandler) else None
        new = to.get(id(stream)) or (sys.stderr if _is_pytests(stream) else None)
        if stream is not None and new is not None:
            handler.stream = new


def _leave_hooks() -> None:
    for module, name in ((sys, "unraisablehook"), (threading, "excepthook")):
        setattr(module, name, own_hook(module, name))


def _is_pytests(value: object) -> bool:
    module = getattr(value, "__module__", None) or type(value).__module__
    return str(module).startswith("_pytest.")


def _show(message: warnings.WarningMessage) -> None:
    """Writes a warning as Python does where nobody records warnings."""
    text = warnings.formatwarning(
        str(message.message), message.category, message.filename, message.lineno, message.line
    )
    stream = message.file or sys.stderr
    if stream is not None:
        stream.write(text)


def _runners_filters() -> list[Filter]:
    """The filters that unittest's runner or pytest's session has set, as far as one runs this code."""
    found: list[Filter] = []
    for module, frame in _frames():
        if (module, frame.f_code.co_name) in _RUNS_OF_UNITTEST:
            action = getattr(frame.f_locals.get("self"), "warnings", "default")
            found += [(action, None, Warning, None, 0)] if action else []
            found += [each for each in warnings.filters if _pattern(each[1]) == _DEPRECATED_ASSERTS]
        elif module == "_pytest.main" and frame.f_code.co_name == "wrap_session":
            found += _pytests_filters(frame.f_locals["config"])
    return found


# The functions that set filters and then run tests: unittest's, and that of a worker.
_RUNS_OF_UNITTEST = {("unittest.runner", "run"), ("harness.runner.worker_process.worker", "run_batch")}
# The message of a filter that unittest sets beside its own until Python 3.11.
_DEPRECATED_ASSERTS = r"Please use assert\w+ instead."


def _pattern(message: object) -> object:
    return getattr(message, "pattern", message)


def _frames() -> Iterator[tuple[str, types.FrameType]]:
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        yield frame.f_globals.get("__name__", ""), frame
        frame = frame.f_back


def _pytests_filters(config: Any) -> list[Filter]:
    """Those of pytest's own, of ``filterwarnings`` in its settings, and of its ``-W``."""
    removed = [each for each in warnings.filters if "PytestRemovedIn" in str(each[2])]
    with warnings.catch_warnings():
        warnings.resetwarnings()
        if not sys.warnoptions:
            warnings.filterwarnings("always", category=DeprecationWarning)
            warnings.filterwarnings("always", category=PendingDeprecationWarning)
        for each in filters_given_to_pytest(config):
            warnings.filterwarnings(*each)
        return [*removed, *warnings.filters]


def filters_given_to_pytest(config: Any) -> list[Filter]:
    """Those of ``filterwarnings`` in pytest's settings and of its ``-W``: what ``filterwarnings`` takes."""
    given = [parsed(each, escape=False) for each in config.getini("filterwarnings")]
    return given + [parsed(each, escape=True) for each in config.known_args_namespace.pythonwarnings or ()]


def parsed(text: str, *, escape: bool) -> Filter:
    """A filter as pytest parses its text; ``escape``: its message is no pattern."""
    found: Filter = sys.modules["_pytest.config"].parse_warning_filter(text, escape=escape)
    return found
