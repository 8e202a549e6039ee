"""The descriptors and standard streams of an interpreter that is a fork."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import sys
from collections.abc import Mapping
from typing import Any


def take_descriptors(asked: Mapping[str, Any]) -> None:
    """Leaves the standard streams that were asked for and the descriptors that are passed on."""
    given = [asked[name] for name in ("p2cread", "c2pwrite", "errwrite")]
    high = [None if number == -1 else fcntl.fcntl(number, fcntl.F_DUPFD, 64) for number in given]
    for number, source in enumerate(high):
        if source is not None:
            os.dup2(source, number)
    passed = {0, 1, 2, *asked["pass_fds"]}
    for number in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):
            if number in passed:
                os.set_inheritable(number, True)
            elif asked["close_fds"] or not os.get_inheritable(number):
                os.close(number)


def open_streams(unbuffered: bool) -> None:
    """Makes Python's standard streams anew, on the descriptors as they are now."""
    assert sys.__stdout__ is not None
    encoding = sys.__stdout__.encoding
    vars(sys)["stdin"] = vars(sys)["__stdin__"] = os.fdopen(0, encoding=encoding, closefd=False)
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = io.TextIOWrapper(
            os.fdopen(number, "wb", 0 if unbuffered else -1, closefd=False),
            encoding=encoding,
            errors="backslashreplace" if number == 2 else "strict",
            line_buffering=number == 2 or os.isatty(number),
            write_through=unbuffered,
        )
        vars(sys)[name] = vars(sys)[f"__{name}__"] = stream
