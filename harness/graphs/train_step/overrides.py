"""``Override``: lets a user replace sub-modules before a train step is traced, and change its graph after."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.fx import GraphModule

from harness.errors import UsageError


class Override(ABC):
    """Replaces sub-modules that cannot be traced, and afterwards their stand-ins in the graph."""

    @abstractmethod
    def replacement(self, fqn: str, orig_submodule: nn.Module) -> nn.Module:
        """Returns the module that replaces the sub-module named ``fqn``, or the sub-module itself to keep it.

        It is called once for each sub-module, parents before children, and not for the children of a
        replacement.
        """

    @abstractmethod
    def transform(self, gm: GraphModule, flat_state: list[Tensor]) -> GraphModule:
        """Returns the graph module to run instead of ``gm``: the same one, changed or not, or another.

        The graph's first placeholders stand for ``flat_state``, in order. Entries may be added and removed
        as long as both stay in step.
        """


def replace_modules(root: nn.Module, overrides: Sequence[Override]) -> None:
    """Offers every sub-module to each override in turn; the first replacement stays in the module."""
    _replace_below(root, "", overrides)


def _replace_below(parent: nn.Module, prefix: str, overrides: Sequence[Override]) -> None:
    for name, child in list(parent.named_children()):
        new = _replacement(f"{prefix}{name}", child, overrides)
        if new is child:
            _replace_below(child, f"{prefix}{name}.", overrides)
        else:
            setattr(parent, name, new)


def _replacement(fqn: str, child: nn.Module, overrides: Sequence[Override]) -> nn.Module:
    for override in overrides:
        new: Any = override.replacement(fqn, child)
        if not isinstance(new, nn.Module):
            raise UsageError(
                f"{type(override).__name__}.replacement returned a {type(new).__name__} for {fqn!r}: it "
                "returns a module, the same one to keep it"
            )
        if new is not child:
            return new
    return child
