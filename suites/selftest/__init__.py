"""Tests of the harness itself: ``test_<module>.py`` files in the folders of harness/, tools/ and suites/."""

import os
import signal

# A shell has what it starts in the background ignore Ctrl-C, and so would all that these tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# CI systems have programs use colors, which would stand in all output that these tests read.
for _name in ("FORCE_COLOR", "PY_COLORS", "CLICOLOR_FORCE"):
    os.environ.pop(_name, None)
