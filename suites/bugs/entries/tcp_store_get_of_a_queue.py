r"""TCPStore.get of a key that is a queue's gives an empty value at once.

kind: silently wrong
expected: It waits for the key, as HashStore does: nobody has set it, and num_keys does not count it.
happens: b"" comes at once.
fails: silently wrong: get gives b'' for a key
since: 2.11
reach: public API
fuzzer: stores
upstream: none found (looked up; #150969, which brought the queues, lets wait and check see them)
who: Whoever has a queue and a value of one name; what waits for the value goes on without it.
seen: ^stores: silently wrong: (get|multi_get) gives (''|\[.*''.*\]) for timeout[^|]*
    \| (prefix )?tcp; turns; (.*; )?queue_push
seen: ^stores: silently wrong: no order of the calls gives what they gave:
    [^|]*\bget\b[^|]*queue_push[^|]*\| (prefix )?tcp;
"""

from datetime import timedelta

import torch.distributed as dist

store = dist.TCPStore("localhost", 0, None, True, wait_for_workers=False)
store.set_timeout(timedelta(milliseconds=200))
store.queue_push("key", "first")
try:
    value = store.get("key")
except dist.DistStoreError as error:
    print("right:", error)
else:
    raise AssertionError(f"get gives {value!r} for a key that nobody has set")
