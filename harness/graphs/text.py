"""``graph_text`` prints a graph as text that is the same in every run and on every machine.

The output of ``GraphModule.code`` also depends on the device and on the release of torch (it marks where
names are dropped, and the way that it prints a return has changed). This text depends on the graph alone::

    forward(primals_1)
      clone = aten.clone.default(primals_1)
      mul = aten.mul.Tensor(clone, 2)
      return (mul,)

Devices are numbered in the order in which the graph names them. Nested graph modules, such as the branches of
a ``cond``, follow the graph under their names.
"""

from __future__ import annotations

import operator
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.fx

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

INDENT = "  "
# Characters to a line, so that a text can stand in a test's source.
WIDTH = 100


def graph_text(
    module: torch.fx.GraphModule,
    *,
    name: str = "forward",
    shapes: bool = False,
    graph: torch.fx.Graph | None = None,
) -> str:
    """The module's graph as text under ``name``; with ``shapes``, each value has its dtype and sizes.

    Shapes come from ``node.meta["val"]``, which the compiler sets; nodes without it are shown without. If
    ``graph`` is given, it is printed in place of the module's own graph.
    """
    return "\n".join(_Printer(shapes).lines(module, name, module.graph if graph is None else graph))


class _Printer:
    """Prints one graph and its nested graphs; it numbers the devices that it meets."""

    def __init__(self, shapes: bool) -> None:
        self._shapes = shapes
        self._devices: dict[torch.device, int] = {}

    def lines(self, module: torch.fx.GraphModule, name: str, graph: torch.fx.Graph) -> Iterator[str]:
        nodes = list(graph.nodes)
        placeholders = (self._declared(node) for node in nodes if node.op == "placeholder")
        yield from _wrapped(f"{name}({', '.join(placeholders)})", indent="")
        for node in nodes:
            if node.op != "placeholder":
                yield from _wrapped(self._statement(node))
        for child, sub in module.named_children():
            if isinstance(sub, torch.fx.GraphModule):
                yield ""
                yield from self.lines(sub, f"{name}.{child}", sub.graph)

    def _statement(self, node: torch.fx.Node) -> str:
        if node.op == "output":
            return f"return {self._value(node.args[0])}"
        if node.op == "get_attr":
            return f"{self._declared(node)} = self.{node.target}"
        if node.target is operator.getitem:
            return f"{self._declared(node)} = {self._value(node.args[0])}[{self._value(node.args[1])}]"
        arguments = [self._value(argument) for argument in node.args]
        arguments += [f"{key}={self._value(value)}" for key, value in node.kwargs.items()]
        return f"{self._declared(node)} = {self._target(node)}({', '.join(arguments)})"

    def _declared(self, node: torch.fx.Node) -> str:
        described = _described(node.meta.get("val")) if self._shapes else ""
        return f"{node.name}: {described}" if described else node.name

    @staticmethod
    def _target(node: torch.fx.Node) -> str:
        if node.op == "call_function":
            return _function_name(node.target)
        return f"self.{node.target}" if node.op == "call_module" else f".{node.target}"

    def _value(self, value: Any) -> str:
        if isinstance(value, torch.fx.Node):
            return str(value.name)
        if isinstance(value, tuple):
            inside = ", ".join(map(self._value, value))
            return f"({inside},)" if len(value) == 1 else f"({inside})"
        if isinstance(value, Sequence) and not isinstance(value, str):
            return f"[{', '.join(map(self._value, value))}]"
        if isinstance(value, Mapping):
            return f"{{{', '.join(f'{key!r}: {self._value(item)}' for key, item in value.items())}}}"
        if isinstance(value, slice):
            return ":".join(self._value(part) for part in (value.start, value.stop, value.step))
        if isinstance(value, torch.device):
            return f"device{self._devices.setdefault(value, len(self._devices))}"
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return str(value).removeprefix("torch.")
        return _function_name(value) if callable(value) else repr(value)


def _wrapped(line: str, indent: str = INDENT) -> Iterator[str]:
    """``line`` cut at spaces into pieces that fit in ``WIDTH``."""
    yield from textwrap.wrap(
        line,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + 2 * INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _function_name(function: Any) -> str:
    """The name of an operator or function in a call: ``aten.mul.Tensor``, ``operator.getitem``, ``cond``."""
    if isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return str(function)
    module = getattr(function, "__module__", None) or ""
    name = getattr(function, "__name__", None) or str(function)
    if module in ("_operator", "math"):
        return f"{module.lstrip('_')}.{name}"
    return name


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(_described(item) or '_' for item in value)})"
    return "" if value is None else str(value)
