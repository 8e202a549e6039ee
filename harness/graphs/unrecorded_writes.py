"""``unrecorded_writes``: the arguments that a function writes to where autograd records nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


def unrecorded_writes(
    function: Callable[..., Any], arguments: Sequence[torch.Tensor], names: Sequence[str]
) -> tuple[str, ...]:
    """Those of ``names`` whose arguments ``function`` writes to under ``no_grad`` or ``inference_mode``.

    The function runs once, in eager, and the arguments are written to. A write to a view counts as one to the
    arguments that share its memory by way of views; a write through ``detach()`` does, too.
    """
    with _Writes(arguments) as writes:
        function(*arguments)
    return tuple(name for index, name in enumerate(names) if index in writes.found)


def in_words(names: Sequence[str]) -> str:
    """What a signature says of such arguments, by which the book of bugs knows them; "" for none."""
    return f"unrecorded writes to {' and '.join(names)}" if names else ""


class _Writes(TorchFunctionMode):  # type: ignore[misc]  # torch is untyped to mypy here
    """Compares the version counters of tensors around each call that is not recorded."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.tensors = tensors
        #: Indices of the tensors that were written to.
        self.found: set[int] = set()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Calls ``func``, and keeps which tensors it wrote to."""
        if torch.is_grad_enabled():
            return func(*args, **(kwargs or {}))
        before = [tensor._version for tensor in self.tensors]
        result = func(*args, **(kwargs or {}))
        after = [tensor._version for tensor in self.tensors]
        self.found |= {index for index, version in enumerate(before) if version != after[index]}
        return result
