"""``HostedZygote``: the zygote and the workers of a run on this host, whose bytes go to the controller.

The controller's relay (``runner.workers.zygote_relay``) is the other end. What the zygote and its workers say
is passed on unread; a worker's end of the claim pipe is a socket here, on which it asks for each test.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.errors import LaunchError
from harness.hosts.loop import Loop
from harness.hosts.messages import ZYGOTE, Claim, Data, Message, Stream, ZygoteEnded
from harness.system.logged_server import LoggedServer, new_log
from harness.system.server_process import ROOT, start_interpreter
from harness.wire import read_available, send_fds, send_frame, socket_pair

# Reads that empty even a pipe of the kernel's largest size, 1 MiB.
_DRAIN_READS = 16
# Seconds for a zygote to end its workers and itself: less than an agent gives its sessions.
_CLOSE_S = 0.8


@dataclass(slots=True)
class _Worker:
    """This host's ends of a worker's descriptors."""

    channel: socket.socket
    output: int
    stacks: int
    claims: socket.socket
    open: dict[Stream, int] = field(default_factory=dict)


class HostedZygote:
    """Owns the zygote's process. ``send`` takes messages for the controller."""

    def __init__(
        self,
        environ: Mapping[str, str],
        guarded: Mapping[str, str | None],
        sys_path: Sequence[str],
        loop: Loop,
        send: Callable[[Message], None],
    ) -> None:
        """``guarded`` are the variables that limit libraries to one thread, as workers get them."""
        self._loop, self._send = loop, send
        self._workers: dict[int, _Worker] = {}
        log = new_log()
        try:
            pid, control = start_interpreter(
                "harness.runner.worker_process.zygote",
                "main",
                [ROOT, *(entry for entry in sys_path if entry != ROOT)],
                arguments={"guarded": dict(guarded)},
                environ=environ,
                start_new_session=True,
                stdout=log,
                stderr=log,
            )
        except OSError as error:
            log.close()
            raise LaunchError(f"the process that forks workers could not be started: {error}") from error
        self._server = LoggedServer(pid, control, log)
        loop.on_read(control.fileno(), self._hear)

    # -- to the controller

    def _hear(self) -> None:
        data = read_available(self._server.control.fileno())
        for number in list(self._workers):  # an end is heard behind all that the worker has said
            self._drain(number)
        if data is None:
            self._end()
        elif data:
            self._send(Data(ZYGOTE, 0, Stream.CHANNEL, data))

    def _end(self) -> None:
        self._loop.forget(self._server.control.fileno())
        self._server.wait(_CLOSE_S)
        self._send(ZygoteEnded(self._server.end_text()))

    def _drain(self, number: int) -> None:
        for stream in list(self._workers[number].open):
            for _ in range(_DRAIN_READS):
                if not self._read(number, stream):
                    break

    def _read(self, number: int, stream: Stream) -> bool:
        """Sends what a worker's stream holds now; whether it may hold more."""
        streams = self._workers[number].open
        data = read_available(streams[stream]) if stream in streams else None
        if data:
            self._send(Data(number, 0, stream, data))
        elif data is None and stream in streams:
            self._loop.forget(streams.pop(stream))
        return bool(data)

    def _claim(self, number: int) -> None:
        claims = self._workers[number].claims
        asked = read_available(claims.fileno())
        if asked is None:
            self._loop.forget(claims.fileno())
        for _ in asked or b"":
            self._send(Claim(number))

    # -- from the controller

    def take(self, data: bytes) -> None:
        """Passes bytes of the controller on to the zygote."""
        with contextlib.suppress(OSError):  # it has died: the loop says so
            self._server.control.sendall(data)

    def fork(self, number: int, order: str) -> None:
        """Has the zygote fork a worker, which gets this number, for a ``Fork`` of the runner's."""
        channel, channel_far = socket_pair()
        claims, claims_far = socket_pair()
        output, output_far = os.pipe()
        stacks, stacks_far = os.pipe()
        worker = _Worker(channel, output, stacks, claims)
        worker.open = {Stream.CHANNEL: channel.fileno(), Stream.OUTPUT: output, Stream.STACK: stacks}
        for fd in (*worker.open.values(), claims.fileno()):
            os.set_blocking(fd, False)
        self._workers[number] = worker
        for stream, fd in worker.open.items():
            self._loop.on_read(fd, lambda stream=stream: self._read(number, stream))  # type: ignore[misc]  # the lambda's default
        self._loop.on_read(claims.fileno(), lambda: self._claim(number))
        try:
            send_frame(self._server.control, order.encode())
            send_fds(
                self._server.control, [channel_far.fileno(), output_far, stacks_far, claims_far.fileno()]
            )
        except OSError:
            pass  # it has died: the loop says so
        finally:
            channel_far.close()
            claims_far.close()
            os.close(output_far)
            os.close(stacks_far)

    def claimed(self, number: int, *, granted: bool) -> None:
        """Answers a worker that has asked for a test."""
        worker = self._workers.get(number)
        if worker is None:
            return
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if granted:
                worker.claims.send(b".")
            else:
                worker.claims.shutdown(socket.SHUT_WR)

    def forget(self, number: int) -> None:
        """Closes what belongs to a worker that has ended; nothing where that was done."""
        worker = self._workers.pop(number, None)
        if worker is None:
            return
        for fd in (*worker.open.values(), worker.claims.fileno()):
            self._loop.forget(fd)
        worker.channel.close()
        worker.claims.close()
        os.close(worker.output)
        os.close(worker.stacks)

    def look_for_stop(self) -> None:
        """Looks whether the zygote is stopped, and kills it where it was at the last looks too."""
        self._server.look_for_stop()

    def close(self) -> None:
        """Ends the zygote and its workers; kills those that do not end at once."""
        for number in list(self._workers):
            self.forget(number)
        self._loop.forget(self._server.control.fileno())
        self._server.control.close()
        self._server.wait(_CLOSE_S)
        self._server.close_log()
