r"""TCPStore.get of a key that another client deletes meanwhile gives an empty value.

kind: silently wrong
expected: The value, as of before delete_key, or a wait for the next one, as of after it.
happens: get asks whether the key is there, then for its value: in between it goes, and b"" comes. Without
    libuv the server closes the connection instead.
fails: silently wrong: get gives b''
since: 2.11
reach: public API
fuzzer: stores
upstream: none found (looked up)
who: Whoever hands a key on by get and delete_key, as by a queue of one place.
seen: ^stores: silently wrong: no order of the calls gives what they gave:
    [^|]*delete_key, [^|]*\b(multi_get|get)\b[^|]*\| (prefix )?tcp;
seen: ^stores: refused: DistNetworkError: Failed to recv[^|]*\| legacy; (threads|ranks);
    (?=.*\b(multi_get|get)\b).*delete_key
"""

import threading
import time
from datetime import timedelta

import torch.distributed as dist

server = dist.TCPStore("localhost", 0, None, True, wait_for_workers=False)
reader = dist.TCPStore("localhost", server.port, None, False)
reader.set_timeout(timedelta(seconds=10))
got = []


def read():
    until = time.monotonic() + 20
    while time.monotonic() < until:
        got.append(reader.get("key"))
        if got[-1] != b"value":
            return


thread = threading.Thread(target=read)
thread.start()
while thread.is_alive():
    server.set("key", "value")
    server.delete_key("key")
assert set(got) == {b"value"}, f"get gives {got[-1]!r} for a key that has had one value only"
