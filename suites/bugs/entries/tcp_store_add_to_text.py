"""TCPStore.add to a key that is no number ends the client's connection.

kind: refused
expected: A ValueError, as HashStore and FileStore give, after which the store works on.
happens: The server closes the connection; every later call of this client fails by Broken pipe.
fails: refused: DistNetworkError
since: 2.11
reach: public API
fuzzer: probes of stores
upstream: none found
who: Whoever counts by a key that something else has set.
"""

import torch.distributed as dist

store = dist.TCPStore("localhost", 0, 1, is_master=True)
store.set("key", "text")
try:
    store.add("key", 1)
except (ValueError, RuntimeError) as error:
    print("refused:", error)
store.set("other", "1")
assert store.get("other") == b"1"
