"""Python imports this at its start in what a recorded test starts; see ``harness/impact/recorder.py``."""

import importlib.machinery
import importlib.util
import os
import sys

from harness.impact.recorder import start

_HERE = os.path.dirname(os.path.abspath(__file__))
start(os.environ)
# The one that would have been imported without this.
_spec = importlib.machinery.PathFinder.find_spec(
    "sitecustomize", [path for path in sys.path if os.path.abspath(path) != _HERE]
)
if _spec is not None and _spec.loader is not None:
    _spec.loader.exec_module(importlib.util.module_from_spec(_spec))
