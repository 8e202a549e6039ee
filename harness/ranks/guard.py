"""The leak guard: finds process state that a test changed in its rank and that the next test would meet.

Each item is a name and a cheap function whose value is compared before and after the test. Nothing is
repaired: pooled ranks in which anything changed are replaced, so no test sees what another one left.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.getsignal spends most of its time on making enums
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterable
from typing import Any

from harness.ranks import process_groups
from harness.system import accelerators, posix, torch_state


def _torch() -> Any | None:
    return sys.modules.get("torch")


def _signal_handlers() -> tuple[Any, ...]:
    return tuple(map(_signal.getsignal, _SIGNALS))


# Only the named signals: the harness uses real-time signals itself.
_SIGNALS = sorted(map(int, signal.Signals))


def _resource_limits() -> dict[str, tuple[int, int]]:
    return dict(zip(_LIMITS, map(resource.getrlimit, _LIMITS.values()), strict=True))


# Those that a later test would notice; each costs a third of a microsecond.
_LIMITS = {
    name: getattr(resource, name) for name in ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE")
}


def _descriptor_count() -> int:
    """The number of open descriptors; 0 before Linux 6.2, where only a listing of the directory gives it.

    Where the number has not changed, the descriptors are assumed to be the same ones.
    """
    return os.stat("/proc/self/fd").st_size


def _descriptors() -> frozenset[str]:
    own = os.open("/proc/self/fd", os.O_RDONLY)  # the number that the listing will have
    os.close(own)
    return frozenset(os.listdir("/proc/self/fd")) - {str(own)}


def _what_it_is(descriptor: str) -> str | None:
    """What a descriptor refers to; None where it is closed, is an eventfd or epoll, or a GPU's file.

    The listing's own descriptor is closed by now; the others are internal to libraries, which keep them.
    """
    try:
        target = os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:
        return None
    return None if target.startswith(("anon_inode:", *accelerators.DEVICE_FILES)) else target


class Guard:
    """Compares the state of a rank's process before and after each of its tests."""

    def __init__(self, own: Iterable[int] = ()) -> None:
        """``own`` are descriptors that the rank needs for every test, besides the standard streams."""
        self._own = frozenset(map(str, (0, 1, 2, *own)))
        self._before: dict[str, Any] = {}
        self._had_torch = False
        self.groups_begun = 0

    def begin(self, *, unchanged: bool = False) -> None:
        """Records the state that the test starts from.

        ``unchanged`` says that nothing ran since the last test was found clean: that snapshot is then used
        again.
        """
        self._had_torch = _torch() is not None
        if not (unchanged and self._before):
            self._before = _snapshot()

    def accept_environment(self) -> None:
        """Takes the environment, which the rank itself has changed, for the one that the test starts from."""
        self._before = {**self._before, "environment": _environment()}

    def accept_import(self) -> None:
        """Adds the threads, children and descriptors that exist now to the state that the test starts from.

        Importing the test's module made them, and later tests of the module do not import it again. What the
        import set process-wide (environment, torch's defaults) still counts as the test's leak.
        """
        now = _snapshot()
        kept = ("accelerators", "threads", "children", "descriptors", "descriptor count")
        self._before = {**self._before, **{name: now[name] for name in kept}}

    def what_changed(self, keeps_group: bool) -> tuple[str, ...]:
        """One line for each thing that the test left changed; empty for a clean test.

        Where the process group is kept (``keeps_group``), a group that this test made is no leak, and neither
        are its descriptors and threads; a second group is one. ``groups_begun`` is then the number of groups
        that the test began to make, whether or not they exist now; the numbers of all ranks are compared
        later to find a leak. It is 0 where no group is kept.
        """
        self.groups_begun = 0
        try:
            after = _snapshot(self._before)
        except OSError as error:  # without /proc, after a chroot
            return (f"the state of the process, which cannot be read any more: {error}",)
        if after == self._before:
            return ()
        changed = [f"{name}: {_difference(old, after[name])}" for name, old in self._plain(after)]
        if self._had_torch:
            changed += self._torch_changes(after["torch"])
        changed += self._grown(after, keeps_group)
        if keeps_group:
            self.groups_begun = after["groups begun"] - self._before["groups begun"]
        self._before = after
        return tuple(changed)

    def _plain(self, after: dict[str, Any]) -> list[tuple[str, Any]]:
        names = ("environment", "working directory", "sys.path", "signal handlers", "resource limits")
        return [(n, self._before[n]) for n in names if self._before[n] != after[n]]

    def _torch_changes(self, after: tuple[Any, ...]) -> list[str]:
        if not after:
            return ["torch, no longer in sys.modules"]
        pairs = zip(torch_state.ITEMS, self._before["torch"], after, strict=True)
        return [f"{item.name}: {old} became {new}" for item, old, new in pairs if old != new]

    def _grown(self, after: dict[str, Any], keeps_group: bool) -> list[str]:
        """One line for each new process group, thread, child or descriptor, and each that is gone."""
        lines = []
        if not after["groups"] and after["groups begun"] > self._before["groups begun"]:
            lines.append("a process group that was begun and not made")
        group_made = after["groups"] != self._before["groups"]
        if keeps_group:
            gone = self._before["groups"] - after["groups"]
            lines += [f"process group {n}, destroyed" for n in sorted(gone)]
        if keeps_group and len(after["groups"]) > 1:
            lines += [f"process group {n}" for n in sorted(after["groups"] - self._before["groups"])]
        lines += [f"thread {t}" for t in sorted(after["threads"] - self._before["threads"])]
        born = after["children"] - self._before["children"]
        lines += [f"child process {p}" for p in sorted(born) if not posix.is_zombie(p)]
        closed = self._own & (self._before["descriptors"] - after["descriptors"])
        lines += [f"descriptor {n}, closed" for n in sorted(closed)]
        # A runtime opens pipes and sockets beside its devices' files, which nothing tells from a test's own.
        runtime_started = after["accelerators"] != self._before["accelerators"]
        if not (group_made or runtime_started):
            opened = {n: _what_it_is(n) for n in after["descriptors"] - self._before["descriptors"]}
            lines += [f"descriptor {n} ({what})" for n, what in sorted(opened.items()) if what is not None]
        return lines


def _children() -> frozenset[int]:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return frozenset()  # the usual case, ten times as fast as listing the children
    return frozenset(posix.children())


def _snapshot(last: dict[str, Any] | None = None) -> dict[str, Any]:
    count = _descriptor_count()
    as_many = last is not None and count > 0 and count == last["descriptor count"]
    return {
        "environment": _environment(),
        "working directory": _working_directory(),
        "sys.path": list(sys.path),
        "signal handlers": _signal_handlers(),
        "resource limits": _resource_limits(),
        "torch": torch_state.values(),
        "accelerators": accelerators.in_use().keys(),
        "groups": process_groups.group_names(),
        "groups begun": process_groups.groups_begun(),
        "threads": frozenset(f"{t.name} ({t.ident})" for t in threading.enumerate()),
        "children": _children(),
        "descriptors": last["descriptors"] if last is not None and as_many else _descriptors(),
        "descriptor count": count,
    }


def _environment() -> dict[bytes, bytes]:
    return dict(os.environ._data)  # type: ignore[attr-defined]  # ten times as fast as os.environ, which decodes


def _working_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "(removed)"


def _difference(old: Any, new: Any) -> str:
    if isinstance(old, dict):
        names = sorted(k for k in old.keys() | new.keys() if old.get(k) != new.get(k))
        return ", ".join(os.fsdecode(n) for n in names)
    if isinstance(old, tuple):
        return ", ".join(signal.Signals(s).name for s, a, b in zip(_SIGNALS, old, new, strict=True) if a != b)
    return f"{old} became {new}"
