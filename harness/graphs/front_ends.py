"""``FrontEnd``: a way to compile a function ahead of time, such as ``aot_function`` or dynamo.

``AotFunction`` calls ``aot_function`` itself. Other ways, through dynamo or through a cache, derive from
``FrontEnd`` and are given to ``verify_aot(front_end=...)``.
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
    """The options for compiling one function.

    Its compilers record the graphs that they are given; a front end must pass them on as they are.

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
    """One way to compile functions; subclasses implement ``compile``.

    ``runs``: how often a function is compiled, called (twice or more) and compared in each round, each time
    with new copies of the inputs. ``shows_graphs``: whether the graphs depend on the user's function alone,
    so that they can be compared with expected ones.
    """

    name: ClassVar[str]
    runs: ClassVar[int] = 1
    shows_graphs: ClassVar[bool] = True

    def compiles(self, number: int) -> bool:
        """Whether run ``number`` of a round must call the compilers, not find their results in a cache."""
        return True

    def round(self) -> AbstractContextManager[None]:
        """A context around all runs of a round, whose inputs differ in each run; the place to make caches."""
        return nullcontext()

    def run(self, number: int) -> AbstractContextManager[None]:
        """A context around compilation, calls and backwards of run ``number`` of a round, counted from 0.

        The place to count what a cache did, and to raise AssertionError if it should have done something
        else.
        """
        return nullcontext()

    def compile(self, function: Callable[..., Any], how: Compilation) -> Callable[..., Any]:
        """``function``, a module or a callable of positional arguments, compiled now or at its first call.

        At each later call a module has the same parameters and buffers, with the values of the first call.
        """
        raise NotImplementedError


class AotFunction(FrontEnd):
    """Compiles a function by ``aot_function`` and a module by ``aot_module``."""

    name = "aot_function"

    def compile(self, function: Callable[..., Any], how: Compilation) -> Callable[..., Any]:
        """The function is compiled at its first call."""
        from torch._functorch.aot_autograd import aot_function, aot_module

        enter = aot_module if isinstance(function, torch.nn.Module) else aot_function
        compiled: Callable[..., Any] = enter(function, **how.arguments, dynamic=how.dynamic)
        return compiled
