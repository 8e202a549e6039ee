"""``Remote`` starts a contender in a process of its own and asks it for measurements over a socket."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.wire import recv_frame, send_frame
from tools.bench.kinds import MeasureError

_TREE = Path(__file__).resolve().parents[2]
# The most seconds for one measurement. Upstream at 32 ranks takes one minute on two cores.
ANSWER_S = 300.0
# How many characters at the end of a contender's output an error shows.
_TAIL = 2000


class Remote:
    """Owns a contender's process: a context manager that kills it together with everything that it started.

    Its methods raise MeasureError if the process dies or does not answer, and again in each later call.
    """

    def __init__(self, name: str, command: Sequence[str] | None = None) -> None:
        self.name = name
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by __exit__
        self._near, far = socket.socketpair()
        self._near.settimeout(ANSWER_S)
        argv = command or (sys.executable, "-m", "tools.bench.worker", name)
        with far:
            self._process = subprocess.Popen(
                [*argv, str(far.fileno())],
                cwd=_TREE,
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                pass_fds=[far.fileno()],
                start_new_session=True,
            )
        self._kinds: list[str] | None = None

    @property
    def kinds(self) -> Sequence[str]:
        """The names of the kinds that the contender supports; waits until it is warm."""
        if self._kinds is None:
            self._kinds = [str(kind) for kind in self._receive()["kinds"]]
        return self._kinds

    def measure(self, kind: str, world_size: int) -> float:
        """Asks for one measurement, in the kind's unit; raises MeasureError if there is none."""
        with contextlib.suppress(OSError):  # if the process is gone, receiving says so
            send_frame(self._near, json.dumps({"kind": kind, "world_size": world_size}).encode())
        answer = self._receive()
        if "error" in answer:
            raise MeasureError(str(answer["error"]))
        return float(answer["value"])

    def _receive(self) -> dict[str, Any]:
        try:
            frame = recv_frame(self._near)
        except TimeoutError:
            self._end()
            raise MeasureError(f"no answer within {ANSWER_S:g} s\n{self._last_words()}") from None
        except OSError:
            frame = None
        if frame is None:
            raise MeasureError(f"its process is gone\n{self._last_words()}")
        answer = json.loads(frame)
        assert isinstance(answer, dict), answer
        return answer

    def _last_words(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-_TAIL:]

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> Remote:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self._near.close()
        self._end()
        self._errors.close()
