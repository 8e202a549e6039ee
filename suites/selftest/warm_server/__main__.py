"""Starts the server: ``python -m warm_server SOCKET FORKING MODULE...`` in the directory of the self-tests.

The package has another name there, and relative imports: nothing of ``suites`` is imported with it.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import socket
import sys
from pathlib import Path

from .children import Children
from .command import Leaving
from .first_child import FirstChild
from .requests import serve


def main(number: str, forking: str, *names: str) -> None:
    """Imports the modules and serves on a socket; in a fork it runs the command, and says how forks start."""
    leaving = Leaving()
    atexit.register(leaving)  # before torch, and so after all others
    gc.disable()
    for name in [*sys.modules]:
        if name.partition(".")[0] == "warm_server":
            del sys.modules[name]  # which no command would find in a new interpreter
    sys.path[0] = str(Path(__file__).resolve().parents[3])  # the tree; a command's path is made anew
    for name in names:
        importlib.import_module(name)
    gc.freeze()  # else each fork would look through all of torch at its end
    gc.enable()
    asked = serve(socket.socket(fileno=int(number)))
    if asked is None:
        leaving.code = 0  # all that it holds goes with it
        return
    if forking == "children":
        Children().take_over()
    elif forking == "first-child":
        asked = FirstChild().given() or asked
    leaving.run(asked)


main(*sys.argv[1:])
