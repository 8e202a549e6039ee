"""``tap_layouts``: where DTensor gives tensors placements, which may need no communication at all."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from harness.communication.tap_state import Taps
from harness.compiler_state import uncompiled


def tap_layouts(taps: Taps) -> None:
    """Records the placements that tensors are redistributed to, which may need no communication at all."""
    module = sys.modules.get("torch.distributed.tensor")
    if module is None or taps.layouts:
        return
    taps.layouts = True
    tensor: Any = module.DTensor
    original = tensor.redistribute

    @functools.wraps(original)
    def redistribute(
        self: Any, device_mesh: Any = None, placements: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        recorder = taps.recorder
        token = None
        if recorder is not None and placements is not None:
            mesh = device_mesh or self.device_mesh
            if _takes_part(mesh):
                token = recorder.lays_out("redistribute", _members_of_mesh(mesh), str(tuple(placements)))
        try:
            return original(self, device_mesh, placements, *args, **kwargs)
        finally:
            if token is not None and recorder is not None:
                recorder.ended(token)

    tensor.redistribute = uncompiled(redistribute)
    for placement, name in ((module.Shard, "_shard_tensor"), (module.Replicate, "_replicate_tensor")):
        if name in vars(placement):
            setattr(placement, name, _distributing(getattr(placement, name), taps))


def _distributing(original: Callable[..., Any], taps: Taps) -> Callable[..., Any]:
    """Wraps the method of a placement by which ``distribute_tensor`` gives a tensor that placement."""

    @functools.wraps(original)
    def distribute(self: Any, tensor: Any, mesh: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = taps.recorder
        if recorder is not None and _takes_part(mesh):
            recorder.ended(recorder.lays_out("distribute_tensor", _members_of_mesh(mesh), str(self)))
        return original(self, tensor, mesh, *args, **kwargs)

    return uncompiled(distribute)


def _members_of_mesh(mesh: Any) -> tuple[int, ...]:
    return tuple(sorted(mesh.mesh.flatten().tolist()))


def _takes_part(mesh: Any) -> bool:
    """Whether this rank is in the mesh: a rank outside of it communicates with none of its ranks."""
    return mesh.get_coordinate() is not None
