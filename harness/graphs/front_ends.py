"""The way a function takes to the ahead-of-time compiler: a ``FrontEnd`` is a value that compiles it.

``AotFunction`` calls the compiler itself. Others, through dynamo or through a cache, derive from ``FrontEnd``
and are given to ``verify_aot(front_end=...)``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from harness.graphs.compilers import Compilers

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


@dataclass(frozen=True, slots=True)
class Compilation:
    """How a function is to be compiled. The compilers capture what they are given; use them as they are.

    ``keep_input_mutations``: whether writes to inputs stay in the graph where they can
    (``keep_inference_input_mutations`` of torch).
    """

    compilers: Compilers
    dynamic: bool = False
    keep_input_mutations: bool = False

    @property
    def arguments(self) -> dict[str, Any]:
        """The keyword arguments that ``aot_function`` and ``aot_module_simplified`` share."""
        return {
            "fw_compiler": self.compilers.forward,
            "bw_compiler": self.compilers.backward,
            "inference_compiler": self.compilers.inference,
            "partition_fn": self.compilers.partitioner,
            "decompositions": self.compilers.decompositions,
            "keep_inference_input_mutations": self.keep_input_mutations,
        }


class FrontEnd:
    """Compiles functions one way.

    ``runs`` is how often a function is compiled, called (twice or more) and compared in each round, always on
    new copies of the inputs; ``shows_graphs`` whether the graphs are a function of the user's alone, so that
    expected ones can be compared with them.
    """

    name: ClassVar[str]
    runs: ClassVar[int] = 1
    shows_graphs: ClassVar[bool] = True

    def compiles(self, number: int) -> bool:
        """Whether run ``number`` of a round has to hand graphs to the compilers, or a cache may have them."""
        return True

    def round(self) -> AbstractContextManager[None]:
        """Held around all runs of a round, in which only the inputs are new: the place to make caches."""
        return nullcontext()

    def run(self, number: int) -> AbstractContextManager[None]:
        """Held around compilation, calls and backwards of run ``number`` of a round, 0 for the first.

        The place to count what a cache did and to raise AssertionError where it should have done else.
        """
        return nullcontext()

    def compile(self, function: Callable[..., Any], how: Compilation) -> Callable[..., Any]:
        """``function``, a module or a callable of positional arguments, compiled when called, or before.

        For each later call a module has the same parameters and buffers, with the values of the first.
        """
        raise NotImplementedError


class AotFunction(FrontEnd):
    """Compiles by ``aot_function``, a module by ``aot_module``."""

    name = "aot_function"

    def compile(self, function: Callable[..., Any], how: Compilation) -> Callable[..., Any]:
        """Compiled at its first call."""
        from torch._functorch.aot_autograd import aot_function, aot_module

        enter = aot_module if isinstance(function, torch.nn.Module) else aot_function
        compiled: Callable[..., Any] = enter(function, **how.arguments, dynamic=how.dynamic)
        return compiled
