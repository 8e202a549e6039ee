r"""A compare_set that sets nothing ends the waits for its key: TCPStore.get gives an empty value.

kind: silently wrong
expected: compare_set that expects another value sets nothing, so that wait and get go on waiting.
happens: The server wakes all that wait for the key: wait returns, and get gives b"".
fails: silently wrong: get gives b''
since: 2.11
reach: public API
fuzzer: stores
upstream: none found (looked up; #100383, on append, takes the wake-up of waiting clients for harmless)
who: Whoever agrees on a leader by compare_set while others wait for it.
seen: ^stores: silently wrong: no order of the calls gives what they gave:
    (?=[^|]*compare_set)[^|]*\b(multi_get|get|wait)\b[^|]*\| (prefix )?(tcp|legacy);
"""

import threading
import time
from datetime import timedelta

import torch.distributed as dist

server = dist.TCPStore("localhost", 0, None, True, wait_for_workers=False)
reader = dist.TCPStore("localhost", server.port, None, False)
reader.set_timeout(timedelta(seconds=2))
got = []


def read():
    try:
        got.append(reader.get("key"))
    except dist.DistStoreError as error:
        print("right:", error)


thread = threading.Thread(target=read)
thread.start()
while thread.is_alive():
    server.compare_set("key", "another value", "value")
    time.sleep(0.01)
assert not server.check(["key"])
assert got == [], f"get gives {got[0]!r} for a key that nobody has set"
