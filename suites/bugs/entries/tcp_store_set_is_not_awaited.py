r"""TCPStore.set returns before the server has the value: another client that asks next does not find it.

kind: silently wrong
expected: The key is there once set has returned, for every client, as HashStore and FileStore have it; add
  and compare_set wait for the server's answer.
happens: check gives False, num_keys is one less, and delete_key gives False, in 1 to 40 of 100 tries with the
  server of libuv: set, multi_set, append and queue_push send, and wait for nothing.
fails: silently wrong: # of # keys were not there
since: 2.11
reach: public API
fuzzer: stores
upstream: none found
who: Whoever sets a key, tells another process by a file, a pipe or a barrier, and has that one check it.
"""

import torch.distributed as dist

server = dist.TCPStore("localhost", 0, None, True, wait_for_workers=False)
writer, reader = (dist.TCPStore("localhost", server.port, None, False) for _ in range(2))
missing = 0
for number in range(1000):
    writer.set(f"key {number}", "x" * (1, 1000, 50_000, 100_000, 300_000)[number % 5])
    missing += not reader.check([f"key {number}"])
assert not missing, f"{missing} of 1000 keys were not there"
