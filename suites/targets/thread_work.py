"""``ThreadWork``: the handle of a collective that runs in a thread of its group."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future as Result
from concurrent.futures import TimeoutError as NotInTime
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor


class ThreadWork(dist._Work):  # type: ignore[misc]  # torch gives its class no type
    """The handle of a collective that runs in the group's thread."""

    def __init__(self, running: Result[None], outputs: Sequence[Tensor], timeout: timedelta) -> None:
        super().__init__()
        self._running, self._outputs, self._timeout = running, list(outputs), timeout
        self._future: torch.futures.Future[list[Tensor]] | None = None

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        limit = timeout if timeout > timedelta(0) else self._timeout
        try:
            self._running.result(limit.total_seconds())
        except NotInTime:
            raise RuntimeError(f"a call timed out after {limit.total_seconds():g} s") from None
        if self._future is not None:
            self._future.wait()  # DDP reads its value after it has waited for the handle
        return True

    def is_completed(self) -> bool:
        return self._running.done()

    def is_success(self) -> bool:
        return self._running.done() and self._running.exception() is None

    def exception(self) -> BaseException | None:
        return self._running.exception() if self._running.done() else None

    def result(self) -> list[Tensor]:
        self.wait()
        return self._outputs

    def synchronize(self) -> None:
        self.wait()

    def get_future(self) -> torch.futures.Future[list[Tensor]]:
        if self._future is None:
            self._future = torch.futures.Future()
            if self._running.done():
                self._set_future(self._running.exception())
            else:
                self._running.add_done_callback(self._complete)
        return self._future

    def _complete(self, running: Result[None]) -> None:
        # What users have the future do may call collectives and wait: not in the thread that runs them.
        threading.Thread(target=self._set_future, args=(running.exception(),), daemon=True).start()

    def _set_future(self, error: BaseException | None) -> None:
        assert self._future is not None
        if error is None:
            self._future.set_result(self._outputs)
        else:
            self._future.set_exception(error)
