"""Addresses of hosts and ports as users write them: ``HOST:PORT``."""

from __future__ import annotations

from harness.errors import UsageError

LARGEST_PORT = 65535


def address_and_port(text: str) -> tuple[str, int]:
    """The two parts of ``HOST:PORT``, with an IPv6 address in brackets; UsageError for anything else."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) <= LARGEST_PORT):
        raise UsageError(f"{text!r}: write HOST:PORT, such as node1:29700")
    return host, int(port)
