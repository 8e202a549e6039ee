r"""A client of TCPStore waits for ever for a port on which something listens that does not answer.

kind: hangs
expected: An error once the store's timeout is over, as where nothing listens on the port.
happens: The client connects, sends its first message and waits for the reply without a deadline.
fails: hangs
since: 2.11
reach: public API
fuzzer: none; torch's own test_port_already_in_use_on_worker
upstream: none found (looked up; #129985 brought the message, to notice broken connections)
who: Ranks whose MASTER_PORT belongs to another program, or whose rank 0 hangs before its store answers: they
  wait without a word, whatever timeout they gave.
"""

import socket
from datetime import timedelta

import torch.distributed as dist

with socket.create_server(("localhost", 0)) as silent:
    try:
        dist.TCPStore("localhost", silent.getsockname()[1], 2, False, timedelta(seconds=1))
    except dist.DistNetworkError as error:
        print("right:", error)
