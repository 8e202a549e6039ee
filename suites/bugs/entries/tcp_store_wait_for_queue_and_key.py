r"""TCPStore.wait for a queue that has an item and a key that is set later times out, though both are there.

kind: hangs
expected: wait returns as soon as the key is set: check says then that both are there.
happens: The server of libuv counts the queue among what is awaited, though its items do not stand among the
  keys; nothing is pushed any more, so that the count does not come to zero.
fails: refused: DistStoreError: wait timeout after #ms
since: 2.11
reach: public API
fuzzer: probes of stores
upstream: none found (looked up; #150969 brought the queues)
who: Workers that wait for a job and for what all jobs need at once.
"""

import threading
import time
from datetime import timedelta

import torch.distributed as dist

server = dist.TCPStore("localhost", 0, None, True, wait_for_workers=False)
server.queue_push("jobs", "first")


def come():
    time.sleep(0.5)  # the other waits
    server.set("settings", "all")


thread = threading.Thread(target=come)
thread.start()
worker = dist.TCPStore("localhost", server.port, None, False)
try:
    worker.wait(["jobs", "settings"], timedelta(seconds=3))
finally:
    thread.join()
    assert server.check(["jobs", "settings"])
