"""``recording``: the region of a test in which a rank's communication is recorded, and can be looked at."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from harness.communication.call_log import CallLog
from harness.communication.history import NOT_IN_USE, history_of
from harness.communication.record.chaos import Chaos, switching
from harness.communication.taps import taps
from harness.system.after_import import after_import

# Where DTensor is.
_LAYOUTS = "torch.distributed.tensor"


@contextmanager
def recording(
    log: CallLog,
    *,
    restart: bool = True,
    values: Callable[[bytes], object] | None = None,
    chaos: Chaos | None = None,
) -> Iterator[None]:
    """Records the calls of the rank that is this process in its log, as ``taps.install`` has it.

    ``chaos`` delays them, and switches the process's threads otherwise.

    Where torch is not imported yet, recording begins when the test imports it; so it is with the placements
    of DTensor, which many a test imports itself.
    """
    with ExitStack() as region:
        region.enter_context(switching(chaos))

        def begin() -> bool:
            recorded = taps.install(log, restart=restart, values=values, chaos=chaos)
            if recorded:
                region.enter_context(history_of(log))
                if _LAYOUTS not in sys.modules:
                    region.enter_context(after_import(_LAYOUTS, taps.prepare))
            return recorded

        if not begin():
            region.enter_context(history_of(NOT_IN_USE))
            region.enter_context(after_import("torch", begin))
        yield
