"""AOTAutograd's cache with nothing but torch's own code between a test and what it caches.

AOTAutograd keeps an entry for each graph that it got: how to run what was compiled for it, and under which
keys inductor's cache has the compiled code. Here the entries are in a directory of their own and the code, of
any compiler, is in memory: ``Codes`` stands for inductor's cache.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch.fx
from torch._dynamo.utils import counters
from torch._functorch import config
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._inductor.codecache import FxGraphCache
from torch._inductor.output_code import OutputCode

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

#: What the cache counts. A bypass is a graph that it has nothing to do with; a guard miss, which is a miss as
#: well, an entry for sizes that these are not.
EVENTS = ("hit", "miss", "saved", "bypass", "guard_miss")
HIT, MISS, SAVED, *_ = NAMES = [f"autograd_cache_{event}" for event in EVENTS]

COMPILERS = ("fw_compiler", "bw_compiler", "inference_compiler")


class Code(OutputCode):
    """What a compiler made, as AOTAutograd's cache wants it: with the key that it is found by."""

    def __init__(self, compiled: Callable[..., Any], key: str) -> None:
        self._boxed_call = True  # the object's own, since AOTAutograd's wrappers copy those
        self._compiled = compiled
        self._fx_graph_cache_key = key
        self._fx_graph_cache_debug_lines = []
        self._time_taken_ns = 0

    def __call__(self, inputs: Sequence[Any]) -> Any:
        return self._compiled(inputs)

    def post_compile(self, *_: Any) -> None:
        """There is nothing to do after compilation."""

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """There is no triton code."""


class Codes(dict[str, Code]):
    """Compiled code by key."""

    def keeping(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of ``aot_module_simplified`` with its compilers, whose results are kept here.

        The compilers are to make code that takes its inputs as one list.
        """
        kept = {role: self._keeping(arguments[role]) for role in COMPILERS}
        return {**arguments, **kept}

    def _keeping(self, compiler: Callable[..., Any]) -> SerializableAOTDispatchCompiler:
        def keeping(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Code:
            key = f"graph {len(self)}"
            self[key] = code = Code(compiler(graph, inputs), key)
            return code

        # AOTAutograd asks its cache only if the compiler is one of these.
        return SerializableAOTDispatchCompiler(OutputCode, keeping)

    def load(self, key: str, *_: Any, **__: Any) -> tuple[Code | None, dict[str, Any]]:
        """In the place of ``FxGraphCache.load_with_key``."""
        return self.get(key), {}


@contextmanager
def new_cache(codes: Codes, *, strict: bool = True) -> Iterator[None]:
    """A region whose autograd cache is empty at first and finds compiled code in ``codes``.

    ``strict``: what cannot be cached, and code that is gone, is an error.
    """
    settings = {"enable_autograd_cache": True, "strict_autograd_cache": strict}
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="autograd-cache-"))
        stack.enter_context(mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=directory))
        stack.enter_context(config.patch(settings))
        stack.enter_context(mock.patch.object(FxGraphCache, "load_with_key", codes.load))
        yield


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """What the cache does within the region, filled in at its end; what it did not do is not there."""
    before = Counter(counters["aot_autograd"])
    told: Counter[str] = Counter()
    yield told
    did = Counter(counters["aot_autograd"]) - before
    told.update({name: did[name] for name in NAMES if did[name]})
