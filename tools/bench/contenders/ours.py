"""Contenders that run this harness's ``MultiProcessTestCase``, one for each launcher: fork server, spawn."""

from __future__ import annotations

import os
import unittest

import torch.distributed  # noqa: F401 - as in a test module, so that the fork server inherits it

from harness import MultiProcessTestCase
from harness.settings import EnvVar
from tools.bench.bodies import Bodies
from tools.bench.contenders.base import CaseContender


class HarnessBodiesCase(Bodies, MultiProcessTestCase):
    """The bodies as tests on this harness's ranks."""


class HarnessContender(CaseContender):
    """The base of the contenders; a subclass sets ``launcher`` to a value of ``HARNESS_LAUNCHER``."""

    launcher: str

    def __init__(self) -> None:
        os.environ[EnvVar.LAUNCHER] = self.launcher

    def case(self, method: str) -> unittest.TestCase:
        """The test case whose method runs one of the bodies."""
        return HarnessBodiesCase(method)


class ForkServer(HarnessContender):
    """Ranks that are forked from a warm server."""

    launcher = "forkserver"


class Spawn(HarnessContender):
    """Ranks that are new interpreters."""

    launcher = "spawn"
