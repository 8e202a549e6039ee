r"""FileStore.delete_key says of a key that is not there that it has deleted it.

kind: silently wrong
expected: False, as delete_key is documented; TCPStore and HashStore return it. Or an exception, which the
  documentation promises of a FileStore.
happens: True, for a key that never was and for one that is deleted already.
fails: silently wrong: deleted
since: 2.11
reach: public API
fuzzer: none; a test of stores
upstream: none found
who: Whoever lets one process of several do something by who deletes a key.
"""

import tempfile

import torch.distributed as dist

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    assert not store.delete_key("never"), "deleted a key that never was"
