"""HashStore.multi_set reads behind the end of a list of values that is too short.

kind: internal assertion
expected: A ValueError that keys and values have unequal lengths; TCPStore says so.
happens: It reads memory behind the values: MemoryError, garbage or the end of the process.
fails: .
since: 2.11
reach: public API
fuzzer: probes of stores
upstream: none found
who: Whoever sets several keys with one value too few.
"""

import torch.distributed as dist

store = dist.HashStore()
try:
    store.multi_set(["a", "b"], ["1"])
except (ValueError, RuntimeError) as error:
    print("right:", error)
else:
    raise AssertionError("two keys were set by one value")
