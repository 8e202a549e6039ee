"""How a backward that compiled autograd captures is written down: its graph, its calls, the log."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._dynamo import compiled_autograd
from torch._dynamo.utils import counters

from suites.patterns.base import autograd_compiled_by

#: What is numbered in a process: addresses, graphs and functions that AOTAutograd made.
_NUMBERED = (
    r"(0x|\baot|CompiledFunctionBackward|CompiledAutograd|torch-compiled-autograd-|Node[A-Z]\w+:)[0-9a-f]+"
)
_PREFIX = r"torch__dynamo_(external_utils|compiled_autograd_ops)_"
REFUSALS = (AssertionError, NotImplementedError, RuntimeError, TypeError, ValueError)


def lines_of(program: Callable[[], None]) -> list[str]:
    """The graphs that a program's backward passes become, one after another, each with its calls."""
    lines: list[str] = []

    def compiler(graph: Any) -> Any:
        lines.extend(_described(graph))

        def call(*arguments: Any) -> Any:
            lines.append(f"called {' '.join(map(_given, arguments))} {_state()}")
            return graph(*arguments)

        return call

    torch._dynamo.reset()
    torch.manual_seed(0)
    counters["compiled_autograd"].clear()
    try:
        with logged(lines), autograd_compiled_by(compiler):
            program()
    except REFUSALS as error:
        words = re.sub(r"\s+", " ", str(error)).strip()
        lines.append(f"{type(error).__name__}: {words[:160]}".rstrip())
    lines.append(f"then {dict(counters['compiled_autograd'])} {_state()}")
    return [re.sub(_NUMBERED, r"\1", line) for line in lines]


def _described(graph: Any) -> Iterator[str]:
    yield f"graph {type(graph).__name__} {graph.meta}"
    for line in graph.code.strip().splitlines()[1:]:
        words = re.sub(r";.*", "", line).rstrip()
        if words:
            yield re.sub(_PREFIX, "", words)
    origins: dict[str, list[str]] = {}
    for node in graph.graph.nodes:
        found = re.search(r"\S+ \(NodeCall \d+\)", node.meta.get("stack_trace") or "")
        left = [name for name in ("val", "tensor_meta", "example_value") if name in node.meta]
        origins.setdefault(" ".join([found[0] if found else "nowhere", *left]), []).append(node.name)
    yield from (f"    from {origin}: {' '.join(names)}" for origin, names in origins.items())


def _given(value: Any) -> str:
    """What a graph is called with, in a word."""
    if isinstance(value, Tensor):
        return f"{tuple(value.shape)}".replace(" ", "")
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_given, value))}]"
    return getattr(value, "__name__", str(value))


def _state() -> str:
    """What compiled autograd says of itself just now."""
    names = ("in_compiled_autograd_region", "compiled_autograd_enabled", "active_disable_ctx", "depth")
    return ",".join(f"{name}={of}" for name in names if (of := getattr(compiled_autograd, name)))


@contextlib.contextmanager
def logged(lines: list[str]) -> Iterator[None]:
    """A region in which compiled autograd's detailed log is written down, but for the graphs in it."""

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            words = record.getMessage().strip()
            if "\n" not in words:
                lines.append(f"log: {words.partition(' with key size')[0]}")

    log, kept = compiled_autograd.verbose_log, Kept()
    level, spreads = log.level, log.propagate
    log.setLevel(logging.DEBUG)
    log.propagate = False
    log.addHandler(kept)
    try:
        with mock.patch.object(compiled_autograd, "snapshot_verbose_logging_enabled", return_value=True):
            yield
    finally:
        log.removeHandler(kept)
        log.setLevel(level)
        log.propagate = spreads
        torch._C._dynamo.compiled_autograd.set_verbose_logger(None)
