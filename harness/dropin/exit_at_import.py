"""Whether a test module ends its import by ``sys.exit(0)``, as upstream's do where there is nothing to test.

Run as a script, such a file says so in a line and succeeds: where its backend is not built in, say. To an
importer it is an error, and to pytest one of its own that ends the whole session.
"""

from __future__ import annotations

import os

from harness.settings import EnvVar


def reason(error: BaseException) -> str:
    """Why the module is skipped whose import raised ``error``; "" where that is no such end.

    The exit has to be a statement of a module, with code 0. ``unittest.main()`` without a guard ends an
    import, too, but what it has run would be lost.
    """
    if os.environ.get(EnvVar.DROP_IN) != "1" or not _means_success(error):
        return ""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code.co_name != "<module>":
        return ""
    place = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
    return f"it ends by sys.exit(0) in {place} when it is imported: as a script, it would have run no test"


def _means_success(error: BaseException) -> bool:
    """Whether it is an exit with 0 or None; False, which is what ``unittest.main()`` says, is neither."""
    return isinstance(error, SystemExit) and (
        error.code is None or (error.code == 0 and error.code is not False)
    )
