"""``VerificationResult``: the result of a successful ``verify_aot``, with the captured graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.fx

from harness.graphs.capture import CapturedGraph, Role

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """The graphs and the returned value of a successful verification.

    ``graphs`` are those of the last round's first run, in the order in which they were compiled for its first
    call, and ``returned`` is what the compiled function returned there. The properties for a graph that was
    not compiled are None, and "" for its text.
    """

    graphs: tuple[CapturedGraph, ...]
    returned: Any

    @property
    def forward(self) -> torch.fx.GraphModule | None:
        """The forward graph, or the inference graph where nothing needs a backward."""
        return self._module("forward", "inference")

    @property
    def backward(self) -> torch.fx.GraphModule | None:
        """The backward graph."""
        return self._module("backward")

    @property
    def forward_text(self) -> str:
        """``forward`` as ``graph_text`` prints it; its first word is the role: forward or inference."""
        return self._text("forward", "inference")

    @property
    def backward_text(self) -> str:
        """``backward`` as ``graph_text`` prints it."""
        return self._text("backward")

    def graph(self, *roles: Role) -> CapturedGraph | None:
        """The last compiled graph that has one of ``roles``."""
        return next((graph for graph in reversed(self.graphs) if graph.role in roles), None)

    def _module(self, *roles: Role) -> torch.fx.GraphModule | None:
        found = self.graph(*roles)
        return None if found is None else found.module

    def _text(self, *roles: Role) -> str:
        found = self.graph(*roles)
        return "" if found is None else found.text
