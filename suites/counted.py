"""A backend that counts what it is given, and what AOTAutograd and inductor make of it.

The numbers are the same where a backend hands each graph back as it is. So there is evidence here that it was
compiled: the graphs that AOTAutograd makes of it, and the code that inductor generates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch._inductor.metrics
from torch import Tensor, fx
from torch._dynamo.backends.debugging import boxed_nop
from torch._dynamo.backends.registry import lookup_backend
from torch._dynamo.testing import CompileCounterWithBackend
from torch._dynamo.utils import counters

from harness.targets import Capability, require

#: How often a graph calls each function, by the function's name: ``{"mm": 4, "relu": 1}``.
Calls = Counter[str]


class Work(NamedTuple):
    """What the compilers of this process have done since the compiler was last cleaned.

    ``graphs`` that AOTAutograd has finished; ``calls`` in inductor's code, of kernels that it has generated
    and of libraries.
    """

    graphs: int
    calls: int

    @classmethod
    def so_far(cls) -> Work:
        """Count now."""
        kernels = torch._inductor.metrics.generated_kernel_count
        return cls(counters["aot_autograd"]["ok"], kernels + counters["inductor"]["extern_calls"])


class CountedBackend(CompileCounterWithBackend):
    """A backend by its name ("eager", "aot_eager", "inductor") that counts and keeps the graphs it is given.

    ``forwards`` and ``backwards`` are what AOTAutograd gave the compiler behind it, graph by graph; nothing
    under "eager". A graph for inference is among the forwards. A backward is there once it has run. ``bare``
    are those of both that call something and for which inductor has generated no code.
    """

    def __init__(self, name: str = "eager") -> None:
        backends: dict[str, str | Callable[..., Any]] = {
            "eager": "eager",
            "aot_eager": self._aot_eager,
            "inductor": self._inductor,
        }
        super().__init__(backends[name])  # type: ignore[arg-type]  # a function is a backend too
        self.name = name
        self.forwards: list[Calls] = []
        self.backwards: list[Calls] = []
        self.bare: list[Calls] = []

    def missing(self) -> str:
        """Which evidence is missing that the backend has compiled all that it was given; "" for none."""
        if self.name == "eager":
            return ""
        if len(self.forwards) != self.frame_count:
            return f"{self.frame_count} graphs, of which AOTAutograd has compiled {len(self.forwards)}"
        return f"inductor has generated no code for {self.bare}" if self.bare else ""

    def products(self) -> list[int]:
        """How many products of linear layers each backward has. Those of attention, in batches, are none."""
        return [calls["mm"] + calls["addmm"] for calls in self.backwards]

    def _aot_eager(self, graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
        def compiler(into: list[Calls]) -> Callable[..., Any]:
            def keep(graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
                into.append(calls_of(graph))
                return boxed_nop(graph, inputs)

            return keep

        compilers = {"fw_compiler": compiler(self.forwards), "bw_compiler": compiler(self.backwards)}
        return lookup_backend("aot_eager")(graph, inputs, **compilers)

    def _inductor(self, graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
        from torch._inductor.compile_fx import compile_fx_inner  # half a second, for those that compile

        def keep(graph: fx.GraphModule, inputs: Sequence[Tensor], *args: Any, **options: Any) -> Any:
            calls, before = calls_of(graph), Work.so_far().calls
            (self.backwards if options.get("is_backward") else self.forwards).append(calls)
            code = compile_fx_inner(graph, inputs, *args, **options)
            if calls and Work.so_far().calls == before:
                self.bare.append(calls)
            return code

        return lookup_backend("inductor")(graph, inputs, inner_compile=keep)


class CountsCompiles:
    """What cases have to count compiled graphs."""

    def counted(self, backend: str = "eager") -> CountedBackend:
        """A backend that counts and keeps the graphs it is given, before the named one compiles them.

        When the test is over, whether it did is checked.
        """
        if backend == "inductor":
            require(Capability.INDUCTOR)
        counter = CountedBackend(backend)
        self.addCleanup(lambda: self.assertEqual(counter.missing(), ""))
        return counter


def calls_of(graph: fx.GraphModule) -> Calls:
    """How often a graph calls each function."""
    functions = (node.target for node in graph.graph.nodes if node.op == "call_function")
    return Counter(getattr(each, "_opname", getattr(each, "__name__", str(each))) for each in functions)
