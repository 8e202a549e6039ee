r"""FileStore.delete_key says that it has deleted a key that was not there.

kind: silently wrong
expected: False: "True if key was deleted, otherwise False", as HashStore and TCPStore give.
happens: True, whatever the key.
fails: silently wrong: a key that was not there
since: 2.11
reach: public API
fuzzer: stores
upstream: none found (looked up)
who: Whoever takes a key as a token: every rank is told that it has it.
seen: ^stores: silently wrong: delete_key gives True for False[^|]*\| (prefix )?file; turns
"""

import os
import tempfile

import torch.distributed as dist

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(os.path.join(directory, "store"), -1)
    assert store.delete_key("nothing") is False, "a key that was not there was deleted"
