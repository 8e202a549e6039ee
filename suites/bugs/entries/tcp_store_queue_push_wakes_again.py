r"""A client of TCPStore that waited for a queue is woken again by its next item, out of another wait.

kind: silently wrong
expected: queue_pop takes the first item; get then waits for its own key, which nobody sets.
happens: The server wakes the client for the first item and leaves it in the queue's list of those that wait,
  so that a second item wakes it out of whatever it waits for then: get gives b"", wait returns.
fails: silently wrong: get gives b''
since: 2.11
reach: public API
fuzzer: stores
upstream: none found (looked up; #150969 brought the queues, and wakes one client in a way of its own)
who: Workers that take jobs from a queue and then read what the jobs need, or meet at a barrier of the store.
seen: ^stores: silently wrong: no order of the calls gives what they gave:
    [^|]*\b(multi_get|get|wait)\b[^|]*\| (prefix )?tcp; (threads|ranks); .*queue_push.*queue_push
"""

import threading
import time
from datetime import timedelta

import torch.distributed as dist

server = dist.TCPStore("localhost", 0, None, True, wait_for_workers=False)
worker = dist.TCPStore("localhost", server.port, None, False)
worker.set_timeout(timedelta(seconds=3))
got = []


def work():
    worker.queue_pop("jobs")
    got.append("a job")
    try:
        got.append(worker.get("settings"))
    except dist.DistStoreError as error:
        print("right:", error)


thread = threading.Thread(target=work)
thread.start()
time.sleep(0.5)  # the worker waits for a job
server.queue_push("jobs", "first")
while not got:
    time.sleep(0.01)
time.sleep(0.5)  # the worker waits for its settings
server.queue_push("jobs", "second")
thread.join()
assert got == ["a job"], f"get gives {got[1]!r} for a key that nobody has set"
