"""The state of torch in this process that a test may change, item by item; read without importing torch.

Two ask for it: the leak guard compares it before and after a test; and a process that is forked into ranks
has to be as a new process would be, because a fork inherits all of it (a process group of a ``conftest.py``
makes every rank's own fail: "trying to initialize the default process group twice!").
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple


class Item(NamedTuple):
    """A setting: its name, how to read it from torch, and its value in a new process as text.

    ``new`` is "" where another value than a new process's is of no harm, or belongs to the machine.
    """

    name: str
    read: Callable[[Any], Any]
    new: str = ""


def values() -> tuple[Any, ...]:
    """The value of each of ``ITEMS``; () where torch is not imported."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "_C"):
        return ()
    return tuple([item.read(torch) for item in ITEMS])  # a list: a generator costs as much as the reads


def made_here() -> tuple[str, ...]:
    """What of torch's state a new process would not have, by name: ("process groups", "default dtype")."""
    made = ("process groups",) if has_groups() else ()
    return (
        *made,
        *(i.name for i, value in zip(ITEMS, values(), strict=False) if i.new not in ("", str(value))),
    )


def has_groups() -> bool:
    """Whether this process has process groups, of any backend."""
    world = getattr(sys.modules.get("torch.distributed.distributed_c10d"), "_world", None)
    return world is not None and (world.default_pg is not None or bool(world.pg_map))


def _rng_tracker() -> Any | None:
    module = sys.modules.get("torch.distributed.tensor._random")
    return getattr(module, "_rng_tracker", None)


def _debug_level() -> int:
    dist = sys.modules.get("torch.distributed")
    return int(dist.get_debug_level()) if dist is not None and dist.is_available() else 0


def _device(torch: Any) -> str:
    return str(torch.get_default_device()) if torch._C._len_torch_function_stack() else "cpu"


ITEMS: tuple[Item, ...] = (
    Item("default dtype", lambda t: t.get_default_dtype(), "torch.float32"),
    Item("default device", _device, "cpu"),
    Item("deterministic algorithms", lambda t: t.are_deterministic_algorithms_enabled(), "False"),
    Item("deterministic warn-only", lambda t: t.is_deterministic_algorithms_warn_only_enabled(), "False"),
    Item("grad mode", lambda t: t.is_grad_enabled(), "True"),
    Item("inference mode", lambda t: t.is_inference_mode_enabled(), "False"),
    Item("anomaly mode", lambda t: t.is_anomaly_enabled(), "False"),
    Item("CPU autocast", lambda t: t.is_autocast_enabled("cpu"), "False"),
    Item("warn-always", lambda t: t.is_warn_always_enabled()),
    Item("intra-op threads", lambda t: t.get_num_threads()),
    Item("float32 matmul precision", lambda t: t.get_float32_matmul_precision()),
    Item("dispatch modes", lambda t: t._C._len_torch_dispatch_stack(), "0"),
    Item("function modes", lambda t: t._C._len_torch_function_stack(), "0"),
    Item("torch.distributed's debug level", lambda t: _debug_level()),
    Item("DTensor's RNG tracker", lambda t: id(_rng_tracker())),
)
