"""A module that imports in the parent and goes wrong in ranks, as an environment variable says."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings

from torch.distributed import FileStore

from suites.selftest.faults.base import FaultyCase

# What goes wrong: "raise", "exit", "hang", "stop" or "thread"; "filter" is harmless. Unset in the parent.
VARIABLE = "SELFTEST_FAULT_IN_IMPORT"
# Seconds. Many times the deadline of the test, and still an end if nobody stops the import.
HANG_S = 20.0

_fault = os.environ.get(VARIABLE, "")
if _fault == "raise":
    raise ImportError("this module does not like ranks")
if _fault == "exit":
    sys.exit(0)
if _fault == "hang":
    time.sleep(HANG_S)
if _fault == "stop":
    os.kill(os.getpid(), signal.SIGSTOP)
if _fault == "filter":
    warnings.filterwarnings("error", "of this module")
if _fault == "thread":
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()


class Unimportable(FaultyCase):
    """A healthy case in the faulty module."""

    def test_anything(self) -> None:
        """Passes if it is reached, and prints the number of threads, the module's included."""
        print(threading.active_count())

    def test_filter(self) -> None:
        """The warning filter that the module sets is in force."""
        with self.assertRaisesRegex(UserWarning, "of this module"):
            warnings.warn("of this module", stacklevel=1)

    def test_meets(self) -> None:
        """The ranks can meet at their rendezvous file."""
        store = FileStore(self.file_name, self.world_size)
        store.set(str(self.rank), "here")
        store.wait([str(rank) for rank in range(self.world_size)])
