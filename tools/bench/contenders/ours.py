"""This project's ``MultiProcessTestCase``, on each of its launchers."""

from __future__ import annotations

import os
import unittest

import torch.distributed  # noqa: F401 - as a test module would: the fork server is forked with it

from harness import MultiProcessTestCase
from tools.bench.bodies import Bodies
from tools.bench.contenders.base import CaseContender


class HarnessBodiesCase(Bodies, MultiProcessTestCase):
    """The bodies on this project's ranks."""


class HarnessContender(CaseContender):
    """A launcher, by the name that ``HARNESS_LAUNCHER`` knows it by."""

    launcher: str

    def __init__(self) -> None:
        os.environ["HARNESS_LAUNCHER"] = self.launcher

    def case(self, method: str) -> unittest.TestCase:
        """The case for one body."""
        return HarnessBodiesCase(method)


class ForkServer(HarnessContender):
    """Ranks forked from a warm server."""

    launcher = "forkserver"


class Spawn(HarnessContender):
    """Ranks that are new interpreters."""

    launcher = "spawn"
