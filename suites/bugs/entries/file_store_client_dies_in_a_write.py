r"""A client of a FileStore that dies within a write stops all others for ever.

kind: hangs
expected: The death of a client harms its own write only; or, within the store's timeout, an error.
happens: A part of the record is in the file. Who reads waits for its rest for ever, under the file's lock.
fails: hangs
since: 2.11
reach: public API
fuzzer: stores
upstream: none found (looked up; #13865, on files left behind by killed processes, is a neighbour)
who: Whoever meets by a file on a full disk, or whose rank is killed while it sets a key.
seen: ^stores: hangs: [^|]*\| file; turns; (.*; )?die; \w
"""

import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

# The kernel ends this process when the file grows by more than 100 bytes: in the midst of the value.
DIES = """
import os, resource, signal, sys
import torch.distributed as dist

store = dist.FileStore(sys.argv[1], -1)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
size = os.path.getsize(sys.argv[1]) + 100
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
store.set("key", "v" * 1000)
"""

with tempfile.TemporaryDirectory() as directory:
    path = str(Path(directory, "store"))
    store = dist.FileStore(path, -1)
    store.set_timeout(timedelta(seconds=1))
    store.set("before", "value")
    subprocess.run([sys.executable, "-c", DIES, path], check=False)
    assert store.get("before") == b"value"
