"""The command line of an agent: ``python -m harness.agent CONTROLLER:PORT``."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence

from harness.agent.agent import Agent, Lost, Options
from harness.agent.slots import count_accelerators
from harness.errors import HarnessError, UsageError
from harness.hosts import key
from harness.hosts.addresses import address_and_port
from harness.hosts.handshake import HandshakeError
from harness.ranks.processes import preload
from harness.settings import EnvVar
from harness.system import processors
from harness.system.intra_op_threads import SINGLE_THREADED

# Exit codes as in docs/running.rst: the run has ended, usage, the controller is lost or was never there.
_DONE, _USAGE, _BROKEN = 0, 2, 3


def main(words: Sequence[str] | None = None) -> int:
    """Runs an agent to the end of its run; returns the exit code."""
    arguments = _parser().parse_args(words)
    if arguments.new_key:
        print(key.new_key())
        return _DONE
    try:
        Agent(_options(arguments), _key(arguments)).run()
    except (UsageError, HandshakeError) as error:
        return _fail(error, _USAGE)
    except (HarnessError, Lost) as error:
        return _fail(error, _BROKEN)
    except KeyboardInterrupt:
        return _BROKEN
    return _DONE


def _options(arguments: argparse.Namespace) -> Options:
    if arguments.controller is None:
        raise UsageError("name the controller: python -m harness.agent HOST:PORT")
    host, port = address_and_port(arguments.controller)
    os.environ.update(SINGLE_THREADED)  # torch must not start threads here, where ranks' servers are forked
    preload.import_torch()
    preload.import_for_ranks(("torch.distributed",))
    accelerators = count_accelerators()
    return Options(
        host,
        port,
        arguments.name,
        arguments.slots or accelerators or processors.available(),
        arguments.address,
        arguments.wait,
        accelerators,
        tuple(arguments.own),
    )


def _key(arguments: argparse.Namespace) -> bytes:
    if arguments.key_file:
        return key.awaited({EnvVar.KEY: os.environ.get(EnvVar.KEY, "")}, arguments.key_file, arguments.wait)
    found = key.given(os.environ)
    if found is None:
        raise UsageError(f"no key: set {EnvVar.KEY} or {EnvVar.KEY_FILE}, the same as the controller's")
    return found


def _fail(error: BaseException, code: int) -> int:
    print(f"harness.agent on {socket.gethostname()}: {error}", file=sys.stderr, flush=True)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.agent",
        description="Takes part in a run with this host: starts its ranks. The controller, which is started "
        "with --hosts N@HOST:PORT, says how long. Ends with code 0 when the run is over, 2 where this host "
        "cannot take part, 3 where the controller is lost.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("controller", nargs="?", metavar="HOST:PORT", help="where the controller listens")
    add("--name", default=socket.gethostname(), help="this host's name in reports (default: its host name)")
    add("--slots", type=int, default=0, metavar="N",
        help="ranks before a test spans another host (default: accelerators, else processors)")  # fmt: skip
    add("--address", default="", help="the address to listen on (default: that towards the controller)")
    add("--key-file", default="", metavar="FILE", help=f"the run's key, where {EnvVar.KEY} is not set")
    add("--wait", type=float, default=120.0, metavar="SECONDS", help="for the controller (default: 120)")
    add("--own", nargs="+", default=(), help=argparse.SUPPRESS)  # files of the controller that starts it
    add("--new-key", action="store_true", help="print a new key and end")
    return parser
