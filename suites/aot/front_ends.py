"""The front ends that tests are run again through: dynamo, and dynamo with AOTAutograd's cache behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch._dynamo
import torch._functorch.config
from torch._dynamo.exc import BackendCompilerFailed
from torch._dynamo.utils import counters
from torch._functorch.aot_autograd import aot_module_simplified

from harness.graphs import Compilation, FrontEnd
from suites.aot.autograd_cache import HIT, MISS, SAVED, Codes, counted, new_cache

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


class ThroughDynamo(FrontEnd):
    """Compiles by ``torch.compile``, whose backend hands what dynamo traced to the compiler.

    Dynamo has to trace the function whole, or with ``breaks`` has to break it. What the compiler raises comes
    out as it is, not wrapped by dynamo. ``entries`` counts the graphs that were handed over and compiled;
    ``attempts`` also those of traces that dynamo gave up and began anew. ``keeps_with_grad``: the inputs for
    which writes stay in the graph where a test has both, those that require grad or those that do not.
    """

    name = "dynamo"
    shows_graphs = False
    keeps_with_grad = True

    def __init__(self, *, breaks: bool = False) -> None:
        self.entries = self.attempts = self._entries_before = 0
        self._breaks = breaks

    def compiles(self, number: int) -> bool:
        """Unless dynamo found nothing to compile: a function may return its arguments."""
        return self.entries > self._entries_before

    @contextmanager
    def run(self, number: int) -> Iterator[None]:
        """AssertionError where dynamo traced whole what should break."""
        self._entries_before, broken = self.entries, counters["graph_break"].total()
        # The verifier runs backward more than once, and what is donated to it serves a single run.
        with torch._functorch.config.patch(donated_buffer=False):
            yield
        if self._breaks and counters["graph_break"].total() == broken:
            raise AssertionError("dynamo traced it whole, which it is not expected to")

    def compile(self, function: Callable[..., Any], how: Compilation) -> Callable[..., Any]:
        """Compiled at its first call, by a dynamo that has seen nothing before."""
        torch._dynamo.reset()

        def backend(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            self.attempts += 1
            compiled = aot_module_simplified(graph, inputs, **self.arguments(how))
            self.entries += 1
            return compiled

        compiled = torch.compile(function, backend=backend, dynamic=how.dynamic, fullgraph=not self._breaks)

        def call(*args: Any) -> Any:
            try:
                return compiled(*args)
            except BackendCompilerFailed as failed:
                raise failed.inner_exception from failed

        return call

    def arguments(self, how: Compilation) -> dict[str, Any]:
        """What ``aot_module_simplified`` is given besides the graph and its inputs."""
        return how.arguments


class ThroughCache(ThroughDynamo):
    """As ``ThroughDynamo``, twice, with the autograd cache in strict mode: it misses and saves, then it hits.

    A round has a cache of its own. What bypasses the cache is an error. The first run is ``ThroughDynamo``'s:
    both front ends together have all that ``keeps_with_grad`` tells apart.
    """

    name = "dynamo and the autograd cache"
    runs = 2
    keeps_with_grad = False

    def __init__(self, *, breaks: bool = False) -> None:
        super().__init__(breaks=breaks)
        self._codes = Codes()

    def compiles(self, number: int) -> bool:
        """Only the first run does."""
        return number == 0 and super().compiles(number)

    @contextmanager
    def round(self) -> Iterator[None]:
        """With a new cache."""
        self._codes = Codes()
        with new_cache(self._codes):
            yield

    @contextmanager
    def run(self, number: int) -> Iterator[None]:
        """Counts what the cache did; AssertionError where the second run does not get what the first had."""
        entries, attempts = self.entries, self.attempts
        with super().run(number), counted() as told:
            yield
        entries, attempts = self.entries - entries, self.attempts - attempts
        # What dynamo gave up has no backward yet, and is not saved.
        given_up = attempts - entries
        wanted = {MISS: attempts, SAVED: entries} if number == 0 else {HIT: entries, MISS: given_up}
        if told != Counter(wanted):
            raise AssertionError(f"run {number + 1}: the cache counts {dict(told)}, not {wanted}")

    def arguments(self, how: Compilation) -> dict[str, Any]:
        """With compilers whose results the cache takes."""
        return self._codes.keeping(how.arguments)
