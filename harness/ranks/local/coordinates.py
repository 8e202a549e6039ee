"""``coordinates_once``: where all simulated ranks are in a mesh, found by one look at the mesh.

torch looks once for each rank, and where the mesh was made under its mode each look computes as many tensors
as there are ranks: 20 s for a mesh of 256 ranks. It also remembers a mesh by its ``id``, which a later mesh
may have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# What was found, by the mesh's id and the simulated ranks; it keeps the mesh, so that no other gets its id.
_Known = dict[tuple[int, frozenset[int]], tuple[Any, list[Any]]]


def coordinates_once() -> Callable[[Any], list[Any]]:
    """What stands in for ``DeviceMesh.get_coordinate`` while one test is simulated.

    AssertionError, as torch's, where a simulated rank is not in the mesh.
    """
    known: _Known = {}

    def get_coordinate(mesh: Any) -> list[Any]:
        from torch.distributed._local_tensor import enabled_local_tensor_mode

        mode = enabled_local_tensor_mode()
        assert mode is not None
        key = (id(mesh), mode.ranks)
        if key not in known:
            with mode.disable():
                known[key] = (mesh, _coordinates(mesh, mode.ranks))
        return known[key][1]

    return get_coordinate


def _coordinates(mesh: Any, ranks: frozenset[int]) -> list[Any]:
    """An integer for each dimension of the mesh, which has each rank's coordinate."""
    import torch
    from torch.distributed._local_tensor import LocalIntNode, LocalTensor

    of_ranks = mesh._rank_map
    if isinstance(of_ranks, LocalTensor):
        of_ranks = of_ranks.reconcile()
    # The first dimension is over the meshes that the others of the root are cut into: each rank is in one.
    whole = mesh._layout.remap_to_tensor(of_ranks)
    places = torch.ones_like(whole).nonzero().tolist()
    by_rank = dict(zip(whole.flatten().tolist(), places, strict=True))
    if len(by_rank) != len(places) or not ranks <= by_rank.keys():
        raise AssertionError(f"not all of the {len(ranks)} simulated ranks are once in {mesh}")
    return [
        torch.SymInt(LocalIntNode({rank: by_rank[rank][dim + 1] for rank in ranks}))
        for dim in range(mesh.ndim)
    ]
