"""A module's warm-up: what one test does for its whole process, and tests after it find done.

The first test that compiles imports 650 modules and asks for the machine's compiler, which takes ten times as
long as the rest of it. A second worker would pay that again. So the seconds of a test that imports many
modules are kept beside those of fixtures, which every worker has to set up as well.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

# Modules that a test imports at least for a warm-up: they take a tenth of a second or two, and more of them
# than a test's own imports of the standard library bring.
MANY_MODULES = 100
_PREFIX = "warm up "


def warm_up_key(module: str) -> str:
    """The key of the module's warm-up among the seconds of fixtures."""
    return _PREFIX + module


def is_warm_up(key: str) -> bool:
    """Whether a key among the seconds of fixtures is that of a warm-up."""
    return key.startswith(_PREFIX)


class WarmUp:
    """Made when a test begins; ``seconds`` says at its end whether that was its module's warm-up."""

    def __init__(self) -> None:
        self._modules = len(sys.modules)

    def seconds(self, module: str, duration_s: float) -> Mapping[str, float]:
        """The entry of the warm-up, which counts as long as the whole test; nothing if it was none."""
        imported = len(sys.modules) - self._modules
        return {warm_up_key(module): duration_s} if imported >= MANY_MODULES else {}
