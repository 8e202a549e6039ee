"""Stores, gloo devices and files that a test makes for itself, under the names of upstream's helpers."""

from __future__ import annotations

import contextlib
import functools
import logging
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from harness.ranks import rendezvous
from harness.requirements import retry_on_connect_failures

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


def find_free_port() -> int:
    """A TCP port that is free now; another process may take it before the caller does."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


@retry_on_connect_failures
def create_tcp_store(
    addr: str = "localhost",
    world_size: int = 1,
    is_master: bool = True,
    timeout: timedelta = timedelta(minutes=5),
    wait_for_workers: bool = True,
    use_libuv: bool = True,
) -> dist.TCPStore:
    """A TCPStore on a port that the system picks; ``port`` of the store says which. For its host alone."""
    return dist.TCPStore(
        addr,
        0,
        world_size,
        is_master,
        timeout=timeout,
        wait_for_workers=wait_for_workers,
        use_libuv=use_libuv,
    )


def create_device(interface: str | None = None, lazy_init: bool = False) -> Any:
    """The device of a gloo group: of an interface, by default that by which ranks reach each other."""
    make = dist.ProcessGroupGloo.create_device
    if interface is None or sys.platform == "win32":
        return make(hostname=rendezvous.host_addr(), lazy_init=lazy_init)
    return make(interface=interface, lazy_init=lazy_init)


def with_temp_dir(func: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a test method a new directory as ``self.temp_dir``: the same one on all ranks of a process group.

    Rank 0 makes it; it is removed after the method, when all ranks have left it. Where the method raises, it
    is removed at once. Without a process group the process has a directory of its own.
    """

    @functools.wraps(func)
    def within(self: Any, *args: Any, **kwargs: Any) -> Any:
        first = not dist.is_initialized() or dist.get_rank() == 0
        place = [tempfile.mkdtemp() if first else ""]
        if dist.is_initialized():
            dist.broadcast_object_list(place)
        self.temp_dir = place[0]
        try:
            returned = func(self, *args, **kwargs)
            if dist.is_initialized():
                dist.barrier()
            return returned
        finally:
            if first:
                shutil.rmtree(place[0], ignore_errors=True)

    return within


def with_checkpoint_logging(
    func: Callable[..., Any] | None = None,
    logger_name: str = "torch.distributed.checkpoint",
    level: int = logging.INFO,
) -> Any:
    """Sets the level of a logger, that of torch's checkpoints by default, while a test method runs.

    Used bare or with arguments.
    """
    if func is None:
        return functools.partial(with_checkpoint_logging, logger_name=logger_name, level=level)

    @functools.wraps(func)
    def within(*args: Any, **kwargs: Any) -> Any:
        with _level(logging.getLogger(logger_name), level):
            return func(*args, **kwargs)

    return within


@contextlib.contextmanager
def _level(logger: logging.Logger, level: int) -> Iterator[None]:
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextlib.contextmanager
def TemporaryFileName(*args: Any, **kwargs: Any) -> Iterator[str]:
    """The name of a new temporary file, which is removed afterwards; arguments of ``NamedTemporaryFile``."""
    with tempfile.NamedTemporaryFile(*args, **kwargs) as file:
        yield file.name


@contextlib.contextmanager
def TemporaryDirectoryName(suffix: str | None = None) -> Iterator[str]:
    """The name of a new temporary directory, which is removed afterwards."""
    with tempfile.TemporaryDirectory(suffix=suffix) as name:
        yield name
