"""The names that programs of groups, objects and rendezvous use: the sections of ``c10d_calls.txt``.

The process is a rank of a world of which the others are not there: what they would send, the program says.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp
from torch.distributed import distributed_c10d as c10d

from suites.told_programs import called, numbers
from suites.values_as_text import text

CPU = torch.device("cpu")
# A function of the same name hides the module.
RENDEZVOUS = importlib.import_module("torch.distributed.rendezvous")


def ranks(*of: int) -> Any:
    """A group of ranks with this one."""
    return dist.new_group([*of, 7])


def others() -> Any:
    """What a rank has of a group that it is not in."""
    return dist.new_group([3, 4])


def packed(*objects: Any) -> str:
    """How many bytes are sent of each object."""
    return text([int(c10d._object_to_tensor(of, CPU, None)[1]) for of in objects])


def arriving(tell: Callable[..., None], patched: Callable[..., Any], **objects: Sequence[Any]) -> None:
    """From here on each named call tells how it was made, and brings these objects, their sizes first."""
    for name, of in objects.items():
        patched(c10d, name, _arrival(name, of, tell))


def _arrival(name: str, objects: Sequence[Any], tell: Callable[..., None]) -> Callable[..., Any]:
    def arrive(*args: Any, **named: Any) -> Any:
        # What is in a tensor before it is received is anything.
        first = _kind(args[0]) if objects and name in ("broadcast", "recv") else shown(args[0])
        tell(f"{name} {', '.join([first, *map(shown, args[1:]), *_named(named)])}")
        if name in ("all_gather", "gather"):
            targets = named.get("gather_list") if name == "gather" else args[0]
            for target, each in zip(targets or (), objects, strict=False):
                _put(target, [each])
        elif name == "scatter" and named["scatter_list"]:
            args[0].copy_(named["scatter_list"][0])
        elif name == "batch_isend_irecv":
            for each in args[0]:
                if each.op is c10d.irecv:
                    _put(each.tensor, objects)
            return [SimpleNamespace(wait=lambda: tell("is waited for"))]
        elif objects:
            _put(args[0], objects)
        return named.get("group_src")

    return arrive


def _put(target: torch.Tensor, objects: Sequence[Any]) -> None:
    """Writes the sizes of objects where numbers are expected, else the objects, one behind another."""
    parts = [c10d._object_to_tensor(of, CPU, None) for of in objects]
    flat = torch.cat([part[target.dtype == torch.long] for part in parts])
    target.zero_()
    target[: len(flat)] = flat[: len(target)]


def shown(value: Any) -> str:
    """An argument: tensors by type and size, numbers as they are, groups by their ranks."""
    if isinstance(value, torch.Tensor):
        return f"{_kind(value)} {value.tolist()}" if value.dtype == torch.long else _kind(value)
    if isinstance(value, list | tuple):
        first, *rest = map(shown, value)
        alike = rest and set(rest) == {first}
        return f"{len(value)} times {first}" if alike else f"[{', '.join([first, *rest])}]"
    if isinstance(value, dist.ProcessGroup):
        return f"ranks {dist.get_process_group_ranks(value)}"
    if isinstance(value, dist.P2POp):
        sent = shown(value.tensor) if value.op is c10d.isend else _kind(value.tensor)
        return f"{value.op.__name__} {sent} {value.peer} {value.group_peer} {value.tag}"
    if type(value).__name__.endswith("Options"):
        names = ("reduceOp", "asyncOp", "rootRank", "timeout", "device", "device_ids")
        return text({name: _option(getattr(value, name)) for name in names if hasattr(value, name)})
    return text(value)


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _named(given: dict[str, Any]) -> list[str]:
    return [f"{name}={shown(value)}" for name, value in given.items()]


def _option(value: Any) -> Any:
    return value.op if isinstance(value, ReduceOp) else value


class Asked:
    """A group that tells the name and the arguments of all that it is asked for, and gives a handle."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self.tell = tell

    def __getattr__(self, name: str) -> Any:
        def ask(*args: Any, **named: Any) -> Any:
            self.tell(f"{name} {', '.join([*map(shown, args), *_named(named)])}")
            return SimpleNamespace(wait=lambda: self.tell(f"{name} is waited for"))

        return ask


def making(
    tell: Callable[..., None], patched: Callable[..., Any], environ: dict[str, str] | None = None
) -> None:
    """From here on stores tell what they are made with; rendezvous has these variables."""

    def make(*given: Any, **named: Any) -> str:
        tell(*given, named)
        return "store"

    for name in ("TCPStore", "FileStore"):
        patched(RENDEZVOUS, name, make)
    if environ is not None:
        patched(RENDEZVOUS, "os", SimpleNamespace(environ=environ))


def handling(tell: Callable[..., None], patched: Callable[..., Any], *schemes: str) -> None:
    """From here on there are handlers of these schemes alone, which tell what they are called with."""

    def handle(url: str, **named: Any) -> Iterator[Any]:
        tell(url, named)
        return iter([("store", 0, 0)])

    patched(RENDEZVOUS, "_rendezvous_handlers", dict.fromkeys(schemes, handle))


def registered(patched: Callable[..., Any], *given: Any, times: int = 1, **named: Any) -> dict[str, Any]:
    """What is known of backends after one is registered where there are two; till the program ends."""
    known = SimpleNamespace(
        GLOO="gloo",
        backend_list=["gloo", "fake"],
        backend_capability={"gloo": ["cpu"]},
        backend_type_map={},
        default_device_backend_map={"cpu": "gloo", "hpu": "fake"},
        _plugins={},
        _BackendPlugin=dist.Backend._BackendPlugin,
    )
    register = dist.Backend.register_backend.__func__  # type: ignore[attr-defined]
    patched(c10d, "Backend", known)
    for _ in range(times):
        register(None, *given, **named)
    return {name: of for name, of in vars(known).items() if name != "_BackendPlugin"}


NAMES = {
    **{each.__name__: each for each in (ranks, others, packed, arriving, shown, Asked, called, numbers)},
    **{each.__name__: each for each in (making, handling, registered)},
    "c10d": c10d,
    "cpu": CPU,
    "dist": dist,
    "op": ReduceOp,
    "rdzv": RENDEZVOUS,
    "seconds": lambda number: timedelta(seconds=number),
    "thing": SimpleNamespace,
    "torch": torch,
}
