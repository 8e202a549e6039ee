r"""FileStore.list_keys gives the store's own keys, without their first letter.

kind: silently wrong
expected: The keys that were set, as HashStore and TCPStore give.
happens: "efcount/", and "leanup/" once a client has gone, stand among them: cut names of internal keys.
fails: silently wrong: the keys of a new store
since: 2.11
reach: public API
fuzzer: stores
upstream: none found (looked up)
who: Whoever goes through all keys of a store, and gets each: no such key is there.
seen: ^stores: silently wrong: list_keys gives \[[^|]*(efcount|leanup)/[^|]*\| file;
"""

import os
import tempfile

import torch.distributed as dist

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(os.path.join(directory, "store"), -1)
    keys = store.list_keys()
    assert keys == [], f"the keys of a new store are {keys}"
