"""Tests the leak guard on this process: it tells each thing that was changed, and nothing else."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from unittest import mock

import torch
import torch.distributed as dist

from harness.ranks import process_groups
from harness.ranks.guard import Guard

NAME = "SELFTEST_LEFT"
Leaving = Callable[[], contextlib.AbstractContextManager[object]]


@contextlib.contextmanager
def undone(undo: Callable[[], object]) -> Iterator[None]:
    """Calls ``undo`` at the end."""
    try:
        yield
    finally:
        undo()


@contextlib.contextmanager
def group() -> Iterator[None]:
    """A process group of one rank."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextlib.contextmanager
def running_thread() -> Iterator[None]:
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="left-behind")
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextlib.contextmanager
def running_child() -> Iterator[None]:
    child = subprocess.Popen(["sleep", "3600"])
    try:
        yield
    finally:
        child.kill()
        child.wait()


def opened(descriptor: int) -> contextlib.AbstractContextManager[None]:
    return undone(lambda: os.close(descriptor))


@contextlib.contextmanager
def opened_pipe() -> Iterator[None]:
    ends = os.pipe()
    try:
        yield
    finally:
        for end in ends:
            os.close(end)


def changed_dtype() -> contextlib.AbstractContextManager[None]:
    torch.set_default_dtype(torch.float64)
    return undone(lambda: torch.set_default_dtype(torch.float32))


def changed_matmul() -> contextlib.AbstractContextManager[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    return undone(lambda: torch.set_float32_matmul_precision(before))


def changed_directory() -> contextlib.AbstractContextManager[None]:
    before = os.getcwd()
    os.chdir("/")
    return undone(lambda: os.chdir(before))


def changed_path() -> contextlib.AbstractContextManager[None]:
    sys.path.append("/left/behind")
    return undone(sys.path.pop)


def changed_handler() -> contextlib.AbstractContextManager[None]:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    return undone(lambda: signal.signal(signal.SIGUSR1, before))


def changed_limit() -> contextlib.AbstractContextManager[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[0] - 1, before[1]))
    return undone(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, before))


class WhatChangedTest(unittest.TestCase):
    """``what_changed`` after something was left."""

    def setUp(self) -> None:
        process_groups.reset_group_count()
        self.guard = Guard()
        self.guard.begin()

    def left(self, leaving: Leaving, *, keeps_group: bool = False) -> tuple[str, ...]:
        """Returns what the guard tells while something is left."""
        with leaving():
            return self.guard.what_changed(keeps_group)

    def test_clean(self) -> None:
        """A test that changed nothing, or put everything back, is clean."""
        self.assertEqual(self.guard.what_changed(keeps_group=False), ())
        with mock.patch.dict(os.environ, {NAME: "1"}), running_thread():
            pass
        self.assertEqual(self.guard.what_changed(keeps_group=False), ())

    def test_one_line_each(self) -> None:
        """Each thing that was left is told in one line, and is not told again after the next test."""
        rows: dict[str, tuple[Leaving, str]] = {
            "environment": (lambda: mock.patch.dict(os.environ, {NAME: "1"}), f"^environment: {NAME}$"),
            "directory": (changed_directory, "^working directory: .* became /$"),
            "path": (changed_path, r"^sys\.path: .*/left/behind"),
            "handler": (changed_handler, "^signal handlers: SIGUSR1$"),
            "limit": (changed_limit, "^resource limits: RLIMIT_NOFILE$"),
            "dtype": (changed_dtype, r"^default dtype: torch\.float32 became torch\.float64$"),
            "grad mode": (torch.no_grad, "^grad mode: True became False$"),
            "device": (lambda: torch.device("meta"), "^default device: cpu became meta$"),
            "matmul": (changed_matmul, "^float32 matmul precision: .* became medium$"),
            "autocast": (lambda: torch.autocast("cpu"), "^CPU autocast: False became True$"),
            "thread": (running_thread, r"^thread left-behind \(\d+\)$"),
            "child": (running_child, r"^child process \d+$"),
            "file": (lambda: opened(os.open("/dev/zero", os.O_RDONLY)), r"^descriptor \d+ \(/dev/zero\)$"),
        }
        for name, (leaving, line) in rows.items():
            with self.subTest(name):
                self.guard.begin()
                with leaving():
                    changed = self.guard.what_changed(keeps_group=False)
                    self.assertTrue(changed)
                    self.assertRegex(changed[0], line)
                    self.assertEqual(self.guard.what_changed(keeps_group=False), ())

    def test_closed_standard_stream(self) -> None:
        """A standard stream, or another descriptor of the rank's own, that the test closed is told."""
        own, other = os.open("/dev/zero", os.O_RDONLY), os.open("/dev/zero", os.O_RDONLY)
        self.guard = Guard([own])
        self.guard.begin()
        os.close(own)
        os.close(other)
        self.assertEqual(self.guard.what_changed(keeps_group=False), (f"descriptor {own}, closed",))

    def test_what_libraries_keep(self) -> None:
        """Descriptors that are a library's plumbing are no leak, nor are children that have ended."""
        self.assertEqual(self.left(lambda: opened(os.eventfd(0))), ())
        child = subprocess.Popen(["true"])
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        self.assertEqual(self.left(lambda: undone(child.wait)), ())

    def test_what_a_runtime_opens(self) -> None:
        """A test in which an accelerator's runtime has begun may leave descriptors, and a later one may not.

        Files of a device are no test's own in any test.
        """
        with mock.patch.object(torch.cuda, "is_initialized", return_value=True):
            self.assertEqual(self.left(opened_pipe), ())
            self.guard.begin()
            self.assertEqual(len(self.left(opened_pipe)), 2)
            self.guard.begin()
            with mock.patch.object(os, "readlink", return_value="/dev/nvidiactl"):
                self.assertEqual(self.left(opened_pipe), ())

    def test_state_that_cannot_be_read(self) -> None:
        """A process that does not see /proc any more has been changed, and is not lost by that."""
        with mock.patch.object(os, "stat", side_effect=FileNotFoundError("/proc/self/fd")):
            (line,) = self.guard.what_changed(keeps_group=False)
        self.assertIn("cannot be read any more: /proc/self/fd", line)

    def test_removed_directory(self) -> None:
        """A working directory that no longer exists is told as such."""
        before, made = os.getcwd(), tempfile.mkdtemp(prefix="selftest-")
        self.addCleanup(os.chdir, before)
        os.chdir(made)
        Path(made).rmdir()
        (line,) = self.guard.what_changed(keeps_group=False)
        self.assertEqual(line, f"working directory: {before} became (removed)")

    def test_torch_that_was_not_there(self) -> None:
        """What the import of torch sets in the first test is not blamed on that test."""
        with mock.patch.dict(sys.modules):
            del sys.modules["torch"]
            self.guard.begin()
        self.assertEqual(self.left(changed_dtype), ())

    def test_import(self) -> None:
        """What runs since the import of the test's module is accepted; what the import has set is told."""
        with running_thread(), mock.patch.dict(os.environ, {NAME: "1"}):
            self.guard.accept_import()
            self.assertEqual(self.guard.what_changed(keeps_group=False), (f"environment: {NAME}",))

    def test_environment_of_the_rank(self) -> None:
        """A variable that the rank itself sets before the test is accepted, and what else changed is not."""
        with running_thread(), mock.patch.dict(os.environ, {NAME: "1"}):
            self.guard.accept_environment()
            self.guard.begin(unchanged=True)
            (line,) = self.guard.what_changed(keeps_group=False)
        self.assertRegex(line, "^thread left-behind")

    def test_unchanged(self) -> None:
        """A guard that is told of no change goes on with what it last saw."""
        self.guard.what_changed(keeps_group=False)
        with mock.patch.dict(os.environ, {NAME: "1"}):
            self.guard.begin(unchanged=True)
            self.assertEqual(self.guard.what_changed(keeps_group=False), (f"environment: {NAME}",))
            first = Guard()
            first.begin(unchanged=True)
            self.assertEqual(first.what_changed(keeps_group=False), ())


class GroupsTest(unittest.TestCase):
    """Process groups that were made, destroyed or given up."""

    def setUp(self) -> None:
        process_groups.reset_group_count()
        self.guard = Guard()

    def test_group_of_the_test(self) -> None:
        """The first group, with its threads and descriptors, is no leak of a test that keeps its group."""
        self.guard.begin()
        with group():
            changed = self.guard.what_changed(keeps_group=True)
            self.assertEqual([line for line in changed if not line.startswith("thread")], [])
            self.assertEqual(self.guard.groups_begun, 1)

    def test_further_group(self) -> None:
        """A further group, and the loss of the kept one, are told."""
        with group():
            self.guard.begin()
            further = dist.new_group([0])
            changed = self.guard.what_changed(keeps_group=True)
            self.assertIn(f"process group {further.group_name}", changed)
            self.assertEqual(self.guard.groups_begun, 1)
            dist.destroy_process_group(further)
            self.assertIn(
                f"process group {further.group_name}, destroyed", self.guard.what_changed(keeps_group=True)
            )
            self.assertEqual(self.guard.groups_begun, 0)

    def test_given_up(self) -> None:
        """A group that was begun and not made is told."""
        self.guard.begin()
        with self.assertRaises(Exception):  # noqa: B017 - which exception it is, torch decides
            dist.init_process_group(
                "gloo", store=dist.HashStore(), rank=0, world_size=2, timeout=timedelta(milliseconds=20)
            )
        self.addCleanup(process_groups.reset_group_count)
        self.assertIn(
            "a process group that was begun and not made", self.guard.what_changed(keeps_group=False)
        )


if __name__ == "__main__":
    unittest.main()
