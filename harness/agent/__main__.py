"""``python -m harness.agent``."""

from __future__ import annotations

import os

from harness.agent.cli import main
from harness.system import posix

if __name__ == "__main__":
    code = main()
    posix.flush_streams()
    os._exit(code)  # what torch would do at the end takes longer than a run's last host may
