"""``Override``: what a user changes of a train step, in its module before tracing and in its graph after."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.fx import GraphModule

from harness.errors import UsageError


class Override(ABC):
    """A replacement of sub-modules that cannot be traced, and of what stands for them in the graph."""

    @abstractmethod
    def replacement(self, fqn: str, orig_submodule: nn.Module) -> nn.Module:
        """The module to put in the place of the one that the user's module calls ``fqn``; itself to keep it.

        Asked once about each sub-module, from the outside in. What a replacement contains is not asked about.
        """

    @abstractmethod
    def transform(self, gm: GraphModule, flat_state: list[Tensor]) -> GraphModule:
        """The graph to run instead of ``gm``: the same, changed, or another.

        Its first placeholders are ``flat_state``, in order. Entries may be added to and dropped from both.
        """


def replace_modules(root: nn.Module, overrides: Sequence[Override]) -> None:
    """Offers every sub-module to every override, and puts the first replacement in its place, for good."""
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
