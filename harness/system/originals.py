"""The original builtins and standard functions, which a test may replace and the harness's own code needs.

A test may replace ``json.dumps`` or ``isinstance`` and leave it so, or fail while it is so. What the harness
makes of the test's result must not depend on that. In a ``harness_code`` function everything in ``USED`` is
as it was when this module was imported, and afterwards as the test had it. ``restore`` and ``apply`` do the
same in two steps, for ranks, in which the test's code and the harness's take turns.
"""

from __future__ import annotations

import builtins
import functools
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

# The functions of this module look builtins up in a copy, since they run while a builtin may be replaced.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]  # typeshed declares the module

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

P = ParamSpec("P")
R = TypeVar("R")

# Besides all builtins: what the harness, and the library below it, call from a test's end to the arrival of
# its report. Without ``time.sleep`` and ``Popen``, which the harness itself replaces where ranks are threads,
# and without ``warnings.showwarning`` and its kin, which ``catch_warnings`` replaces.
USED = {
    "base64": "b64decode b64encode",
    "contextlib": "ExitStack contextmanager nullcontext suppress",
    "dataclasses": "fields replace",
    "functools": "cache lru_cache partial wraps",
    "gc": "collect",
    "json": "JSONDecoder JSONEncoder _default_decoder _default_encoder dumps loads",
    "json.JSONDecoder": "__init__ decode raw_decode",
    "json.JSONEncoder": "__init__ default encode iterencode",
    "json.encoder": "c_make_encoder encode_basestring encode_basestring_ascii",
    "linecache": "checkcache getline getlines lazycache updatecache",
    "os": "_exit close dup2 fork fsdecode fsencode fstat getcwd getpid getppid kill listdir open pidfd_open"
    " pipe read readlink remove set_blocking set_inheritable stat waitid waitpid write",
    "os.path": "abspath basename dirname exists isabs join normpath",
    "pickle": "Pickler Unpickler dumps loads",
    "select": "epoll poll select",
    "selectors": "DefaultSelector EpollSelector",
    "signal": "Signals pthread_kill pthread_sigmask set_wakeup_fd signal",
    "socket": "recv_fds send_fds socket socketpair",
    "socket.socket": "close detach fileno recv recvmsg send sendall sendmsg setblocking settimeout",
    "struct": "Struct calcsize pack pack_into unpack unpack_from",
    "sys": "_getframe exc_info exit",
    "threading": "Condition Event Lock RLock Thread active_count current_thread enumerate main_thread",
    "threading.Thread": "is_alive join start",
    "time": "monotonic perf_counter time",
    "traceback": "TracebackException format_exception format_tb print_exc print_exception walk_tb",
    "traceback.TracebackException": "__init__ format format_exception_only",
    "warnings": "warn",
}


@dataclass(frozen=True, slots=True)
class Patch:
    """A value that is not the original; None where the name is missing. ``str`` is its full name."""

    where: str
    name: str
    value: object

    def __str__(self) -> str:
        return self.name if self.where == "builtins" else f"{self.where}.{self.name}"


class _Namespace:
    """The originals of one module, class or dictionary; None for a name that a class inherits."""

    def __init__(self, name: str, owner: Any, names: Iterable[str]) -> None:
        self.name = name
        self._owner = owner
        self._values: Mapping[str, object] = owner if isinstance(owner, dict) else vars(owner)
        self._names = tuple(names)
        self._originals = tuple(map(self._values.get, self._names))
        # All of few values are read fastest together; itemgetter picks few of many, or raises KeyError.
        all_of_them = isinstance(owner, type) or owner is builtins
        read: Callable[[Any], object] = _all_values if all_of_them else itemgetter(*self._names)
        self.quick = (read, self._values, read(self._values))

    def patched(self) -> list[Patch]:
        """What is not original at the moment."""
        now = map(self._values.get, self._names)
        each = zip(self._names, now, self._originals, strict=True)
        return [Patch(self.name, name, value) for name, value, original in each if value is not original]

    def put(self, name: str, value: object) -> None:
        """Sets or, with None, deletes a name."""
        if isinstance(self._owner, dict):
            self._put_item(name, value)
        elif value is not None:
            setattr(self._owner, name, value)
        elif name in self._values:
            delattr(self._owner, name)

    def _put_item(self, name: str, value: object) -> None:
        if value is not None:
            self._owner[name] = value
        else:
            self._owner.pop(name, None)

    def put_back(self, name: str) -> None:
        """Makes a name's value the original."""
        self.put(name, self._originals[self._names.index(name)])


def _all_values(values: Mapping[str, object]) -> list[object]:
    return list(values.values())


def _namespaces() -> dict[str, _Namespace]:
    used = {name: pkgutil.resolve_name(name) for name in USED}
    modules = [name for name, owner in used.items() if isinstance(owner, ModuleType)]
    found = [_Namespace(name, owner, USED[name].split()) for name, owner in used.items()]
    found.append(_Namespace("builtins", builtins, _callable_builtins()))
    found.append(_Namespace("sys.modules", sys.modules, modules))
    return {each.name: each for each in found}


def _callable_builtins() -> list[str]:
    return [name for name, value in vars(builtins).items() if callable(value)]


_NAMESPACES = _namespaces()
_QUICK = tuple(each.quick for each in _NAMESPACES.values())


def patched() -> tuple[Patch, ...]:
    """All that is not original at the moment; where nothing is, that takes some microseconds."""
    if _as_ever():
        return ()
    return tuple(patch for namespace in _NAMESPACES.values() for patch in namespace.patched())


def _as_ever() -> bool:
    """Whether nothing is patched; False also where a class or the builtins have got another attribute."""
    try:
        for read, values, original in _QUICK:
            if read(values) != original:
                return False
    except KeyError:
        return False
    return True


def restore() -> tuple[Patch, ...]:
    """Puts all originals back, and returns what was patched."""
    found = patched()
    for patch in found:
        _NAMESPACES[patch.where].put_back(patch.name)
    return found


def apply(patches: Iterable[Patch]) -> None:
    """Puts values in place that ``restore`` or ``patched`` returned."""
    for patch in patches:
        _NAMESPACES[patch.where].put(patch.name, patch.value)


def harness_code(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a function of the harness that is called while a test may have something patched."""

    @functools.wraps(function)
    def with_originals(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True
        found = restore()
        if not found:
            return function(*args, **kwargs)
        try:
            return function(*args, **kwargs)
        finally:
            apply(found)

    return with_originals


class TestPatches:
    """What tests have patched in a process in which their code and the harness's take turns.

    ``kept`` is what is patched before the first test, and ``left`` names what the last test left patched.
    """

    __test__ = False  # not a test class, whatever pytest thinks of the name

    def __init__(self, kept: tuple[Patch, ...] = ()) -> None:
        self._kept = kept
        self.left: tuple[str, ...] = ()

    def put_in_place(self) -> None:
        """The tests' turn: what they, and the modules that they import, had patched is patched again."""
        apply(self._kept)

    def accept_import(self) -> None:
        """Takes what is patched now as done by importing the test's module, which is no test's leak."""
        self._kept = patched()

    def put_away(self, found: tuple[Patch, ...]) -> None:
        """The harness's turn, once ``restore`` has returned ``found``."""
        self.left = tuple(str(patch) for patch in found if patch not in self._kept)
        self._kept = found
