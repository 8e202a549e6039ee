"""``tap_layouts``: where DTensor gives tensors placements, which may need no communication at all."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from harness.communication.taps.tap_state import Taps
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
        recorder = taps.active().recorder
        token = None
        if recorder is not None and placements is not None and not _is_traced(self._local_tensor):
            mesh = device_mesh or self.device_mesh
            if _takes_part(mesh):
                token = recorder.lays_out("redistribute", _members_of_mesh(mesh), str(tuple(placements)))
        try:
            return original(self, device_mesh, placements, *args, **kwargs)
        finally:
            if token is not None and recorder is not None:
                recorder.ended(token)

    tensor.redistribute = uncompiled(redistribute)
    tensor.from_local = staticmethod(_from_local(tensor.from_local, module, taps))
    for placement, name in ((module.Shard, "_shard_tensor"), (module.Replicate, "_replicate_tensor")):
        if name in vars(placement):
            setattr(placement, name, _distributing(getattr(placement, name), taps))


def _distributing(original: Callable[..., Any], taps: Taps) -> Callable[..., Any]:
    """Wraps the method of a placement by which ``distribute_tensor`` gives a tensor that placement."""

    @functools.wraps(original)
    def distribute(self: Any, tensor: Any, mesh: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = taps.active().recorder
        if recorder is not None and not _is_traced(tensor) and _takes_part(mesh):
            text = _whole_text(self, tensor, args[0] if args else kwargs.get("mesh_dim"))
            recorder.ended(recorder.lays_out("distribute_tensor", _members_of_mesh(mesh), text))
        return original(self, tensor, mesh, *args, **kwargs)

    return uncompiled(distribute)


def _whole_text(placement: Any, tensor: Any, mesh_dim: Any) -> str:
    """The placement, and the shape, which is the same on all ranks where no dimension came before."""
    if mesh_dim != 0 or not _is_real(tensor):
        return f"by {placement}"
    return f"{tuple(int(size) for size in tensor.shape)} by {placement}"


def _from_local(original: Callable[..., Any], module: Any, taps: Taps) -> Callable[..., Any]:
    """Wraps the function that makes a distributed tensor of each rank's part, which communicates nothing."""

    @functools.wraps(original)
    def from_local(
        local_tensor: Any, device_mesh: Any = None, placements: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        made = original(local_tensor, device_mesh, placements, *args, **kwargs)
        recorder = taps.active().recorder
        if recorder is not None and type(made) is module.DTensor and _is_real(made._local_tensor):
            mesh = made.device_mesh
            if _takes_part(mesh):
                text = f"{part_text(made._local_tensor.shape, made.placements)} as {tuple(made.placements)}"
                recorder.ended(recorder.lays_out("from_local", _members_of_mesh(mesh), text, by_line=True))
        return made

    return uncompiled(from_local)


def part_text(shape: Sequence[int], placements: Sequence[Any]) -> str:
    """The shape of a rank's part, with "*" for a dimension that is split, which may be unequal."""
    split = {p.dim % len(shape) for p in placements if hasattr(p, "dim") and shape}
    sizes = ["*" if dim in split else str(int(size)) for dim, size in enumerate(shape)]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _is_real(tensor: Any) -> bool:
    """Whether a tensor has data, and is none of those by which functions are traced."""
    return not tensor.is_meta and type(tensor).__name__ in ("Tensor", "Parameter")


def _is_traced(tensor: Any) -> bool:
    """Whether a tensor stands for others while a function is traced: nothing is communicated then.

    Nor may the mesh's own tensor be asked, under the mode of such tensors.
    """
    return type(tensor).__name__ in ("FakeTensor", "FunctionalTensor")


def _members_of_mesh(mesh: Any) -> tuple[int, ...]:
    return tuple(sorted(mesh.mesh.flatten().tolist()))


def _takes_part(mesh: Any) -> bool:
    """Whether this rank is in the mesh: a rank outside of it communicates with none of its ranks."""
    return mesh.get_coordinate() is not None
