r"""FileStore.append appends nothing, where the value that is there is the one to append.

kind: silently wrong
expected: get gives "xx", as HashStore and TCPStore do.
happens: It gives "x". append is a loop of compare_set that ends when the value it reads is the one it wants
  to write: so it is for a first append to such a key, and for two clients that append the same at once.
fails: silently wrong: the value
since: 2.11
reach: public API
fuzzer: stores
upstream: none found (looked up; pytorch/pytorch#100379 added append)
who: Whoever counts ranks, or gathers equal messages, by what they append to one key.
seen: ^stores: silently wrong: \w+ gives (a value for a value|\[[^|]*\] for \[[^|]*)\s*
    \| (prefix )?file; turns; (\w+; ){1,3}append(; \w+){1,2}$
seen: ^stores: silently wrong: no order of the calls gives what they gave:
    [^|]*\bappend\b[^|]*\| (prefix )?file; (threads|ranks);
"""

import os
import tempfile

import torch.distributed as dist

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(os.path.join(directory, "store"), -1)
    store.set("key", "x")
    store.append("key", "x")
    assert store.get("key") == b"xx", f"the value: {store.get('key')!r}"
