"""The program of a contender's process: it measures when it is asked to.

    python -m tools.bench.worker CONTENDER FD

Requests and answers are frames of JSON over the socket FD. The process ends when the other side closes it.
"""

from __future__ import annotations

import json
import socket
import sys

from harness.wire import recv_frame, send_frame
from tools.bench import contenders
from tools.bench.contenders.base import Contender
from tools.bench.kinds import KINDS, MeasureError


def serve(control: socket.socket, contender: Contender) -> None:
    """Warms the contender, sends the kinds that it supports, and answers requests until the socket closes."""
    contender.warm()
    send_frame(control, json.dumps({"kinds": list(contender.kinds)}).encode())
    while (frame := recv_frame(control)) is not None:
        request = json.loads(frame)
        send_frame(control, json.dumps(_answer(contender, request["kind"], request["world_size"])).encode())


def _answer(contender: Contender, kind: str, world_size: int) -> dict[str, object]:
    try:
        return {"value": contender.measure(KINDS[kind], world_size)}
    except MeasureError as error:
        return {"error": str(error)}


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[2])) as near:
        serve(near, contenders.make(sys.argv[1]))
