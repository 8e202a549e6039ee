"""``weighed``: what the min-cut partitioner goes by, written down: its network, and kinds of nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import networkx
from torch._functorch import partitioners

#: Kinds of nodes that the partitioner goes by, as ``classify_nodes`` has them.
KINDS = ("inputs", "required_fw_nodes", "required_bw_nodes", "tangents_closure", "unclaimed_nodes")


@contextlib.contextmanager
def weighed(lines: list[str]) -> Iterator[None]:
    """A region in which networks, kinds of nodes and their distances are written down."""
    cut, classify = networkx.minimum_cut, partitioners.classify_nodes

    def cutting(network: Any, *ends: Any) -> Any:
        for node in network:
            edges = sorted(f"{to} {of['capacity']:.6g}" for to, of in network[node].items())
            lines.extend([f"{node}: {', '.join(edges)}"] if edges else [])
        return cut(network, *ends)

    def classifying(joint: Any, *arguments: Any) -> Any:
        info = classify(joint, *arguments)
        lines.extend(f"{kind}: {' '.join(map(str, getattr(info, kind)))}".rstrip() for kind in KINDS)
        lines.append(f"static: {' '.join(map(str, info.static_lifetime_input_nodes))}".rstrip())
        order = (f"{node} {info.get_fw_order(node)}" for node in info.required_fw_nodes)
        lines.append(f"order: {', '.join(order)}")
        tagged = (
            f"{node} {node.meta['recompute']}" for node in joint.graph.nodes if "recompute" in node.meta
        )
        lines.extend(f"policy: {each}" for each in tagged)
        return info

    with (
        mock.patch.object(networkx, "minimum_cut", cutting),
        mock.patch.object(partitioners, "classify_nodes", classifying),
    ):
        yield
