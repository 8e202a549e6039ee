"""``MasterPort``: the port on which rank 0 makes its store, kept free for it from the choice to the end.

A port that is only looked up may belong to somebody else by the time rank 0 listens on it. So a socket stays
bound to it which never listens: Linux then gives the port to nobody who asks for any port, while rank 0 may
listen on it all the same, because its socket and this one have SO_REUSEADDR.
"""

from __future__ import annotations

import contextlib
import socket
import types

from harness.errors import UsageError


class MasterPort:
    """Owns the socket that keeps the port; a context manager. UsageError where a wanted port is taken."""

    def __init__(self, wanted: int | None = None) -> None:
        self._socket = _bound(wanted or 0)
        self.number: int = self._socket.getsockname()[1]

    def __enter__(self) -> MasterPort:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self._socket.close()


def _bound(port: int) -> socket.socket:
    """A socket that is bound to the port on all addresses: of both families where this machine has both."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    with contextlib.ExitStack() as undo:
        kept = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
        if family == socket.AF_INET6:
            kept.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            kept.bind(("", port))
        except (OSError, PermissionError) as error:
            raise UsageError(f"port {port} cannot be used as MASTER_PORT: {error.strerror}") from error
        undo.pop_all()
    return kept
