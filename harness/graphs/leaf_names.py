"""The names that the verifier's messages use for inputs, outputs and leaves: ``input 0 (batch)['x']``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import keystr, tree_flatten_with_path

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


def named_leaves(prefix: str, value: Any) -> list[tuple[str, Any]]:
    """The leaves of a container, each named ``prefix`` and its path in the container: ``output['loss']``."""
    leaves, _ = tree_flatten_with_path(value)
    return [(prefix + str(keystr(path)), leaf) for path, leaf in leaves]


def named_inputs(function: Callable[..., Any], arguments: Sequence[Any]) -> list[tuple[str, Any]]:
    """The leaves of ``arguments`` with names such as ``input 1 (mask)`` and ``input 0 (batch)['x']``."""
    names = parameter_names(function)
    named: list[tuple[str, Any]] = []
    for index, argument in enumerate(arguments):
        parameter = f" ({names[index]})" if index < len(names) else ""
        named += named_leaves(f"input {index}{parameter}", argument)
    return named


def named_outputs(value: Any) -> list[tuple[str, Any]]:
    """The leaves of a returned value with names such as ``the output``, ``output 1``, ``output['loss']``."""
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return [pair for index, item in enumerate(value) for pair in named_leaves(f"output {index}", item)]
    named = named_leaves("output", value)
    return [("the output", value)] if [name for name, _ in named] == ["output"] else named


def parameter_names(function: Callable[..., Any]) -> list[str]:
    """The names of a function's positional parameters; empty if it has no signature."""
    target = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):  # a builtin, which has no signature
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in positional]


def joined(names: Sequence[str]) -> str:
    """The names as one phrase: ``a``, ``a and b``, ``a, b and c``, or ``nothing`` if there are none."""
    if len(names) < 2:
        return names[0] if names else "nothing"
    return f"{', '.join(names[:-1])} and {names[-1]}"
