"""The state of torch in this process that a test may change, item by item; read without importing torch.

Two ask for it: the leak guard compares it before and after a test; and a process that is forked into ranks
has to be as a new process would be, because a fork inherits all of it (a process group of a ``conftest.py``
makes every rank's own fail: "trying to initialize the default process group twice!").
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple


class Item(NamedTuple):
    """A setting: its name, how to read it from torch, and its value in a new process as text.

    ``new`` is "" where another value than a new process's is of no harm, or belongs to the machine, or where
    imports have a part in it.
    """

    name: str
    read: Callable[[Any], Any]
    new: str = ""


def values() -> tuple[Any, ...]:
    """The value of each of ``ITEMS``; () where torch is not imported."""
    torch = _torch()
    if torch is None:
        return ()
    return tuple([item.read(torch) for item in ITEMS])  # a list: a generator costs as much as the reads


def made_here() -> tuple[str, ...]:
    """What of torch's state a new process would not have, by name: ("process groups", "default dtype")."""
    made = ("process groups",) if has_groups() else ()
    torch = _torch()
    if torch is None:
        return made
    read = [(item, item.read(torch)) for item in (*ITEMS, *REGISTRIES)]
    return (*made, *(item.name for item, value in read if item.new not in ("", str(value))))


def of_imports() -> dict[str, Any]:
    """The values to which imports have a part, by name: in a new process they are as after the imports."""
    torch = _torch()
    return {item.name: item.read(torch) for item in OF_IMPORTS} if torch is not None else {}


def _torch() -> Any | None:
    torch = sys.modules.get("torch")
    return torch if hasattr(torch, "_C") else None


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


def _loaded(module: str, name: str, default: Any) -> Any:
    """An attribute of a module that may not be imported, or not have it in this release."""
    return getattr(sys.modules.get(module), name, default)


def _saved_tensor_hooks(torch: Any) -> tuple[Any, ...]:
    autograd = torch._C._autograd
    return (autograd._saved_tensors_hooks_is_enabled(), autograd._top_saved_tensors_default_hooks(True))


def _mesh_stack() -> int:
    resources = _loaded("torch.distributed.device_mesh", "_mesh_resources", None)
    return len(getattr(resources, "mesh_stack", ()))


def _module_hooks() -> int:
    module = sys.modules.get("torch.nn.modules.module")
    return sum(len(getattr(module, name, ())) for name in _MODULE_HOOKS)


_MODULE_HOOKS = (
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
    "_global_backward_hooks",
    "_global_backward_pre_hooks",
    "_global_parameter_registration_hooks",
    "_global_buffer_registration_hooks",
    "_global_module_registration_hooks",
)


def _print_options(torch: Any) -> list[Any]:
    options = torch._tensor_str.PRINT_OPTS
    return [getattr(options, n) for n in ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")]


def _works(torch: Any) -> int:
    """Works that wait to be waited for by name, of functional collectives."""
    size = getattr(getattr(torch._C, "_distributed_c10d", None), "_get_work_registry_size", None)
    return int(size()) if size is not None else 0


def _symmetric_memory() -> int:
    names = ("_group_name_to_store", "_group_name_to_workspace_tensor", "_symm_mem_pools")
    home = "torch.distributed._symmetric_memory"
    return sum(len(_loaded(home, name, ())) for name in names) + bool(_loaded(home, "_is_test_mode", False))


def _has_rpc_agent() -> bool:
    asks = _loaded("torch.distributed.rpc", "_is_current_rpc_agent_set", None)
    return asks is not None and bool(asks())


def _matmul_precision(torch: Any) -> str:
    """How precise float32 matrix products are; torch does not say it where both ways to set it were used."""
    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:
        return "mixed"


def _backend_switches(torch: Any) -> tuple[Any, ...]:
    """The switches of ``torch.backends`` that this release has, without asking for a device."""
    switches = tuple(_asked(getattr(torch._C, name, None)) for name in _SWITCHES)
    precision = getattr(torch._C, "_get_fp32_precision_getter", None)
    return (*switches, *(_asked(precision, *each) for each in _PRECISIONS))


def _asked(function: Callable[..., Any] | None, *arguments: str) -> Any:
    """What a question to torch is answered; None for one that this release lacks, or does not answer now."""
    try:
        return function(*arguments) if function is not None else None
    except RuntimeError:  # both ways to set it were used
        return None


_SWITCHES = (
    "_get_cpu_allow_fp16_reduced_precision_reduction",
    "_get_cublas_allow_bf16_reduced_precision_reduction",
    "_get_cublas_allow_fp16_accumulation",
    "_get_cublas_allow_fp16_reduced_precision_reduction",
    "_get_cublas_allow_tf32",
    "_get_cudnn_allow_tf32",
    "_get_cudnn_benchmark",
    "_get_cudnn_deterministic",
    "_get_cudnn_enabled",
    "_get_cudnn_sdp_enabled",
    "_get_flash_sdp_enabled",
    "_get_math_sdp_enabled",
    "_get_mem_efficient_sdp_enabled",
    "_get_mkldnn_deterministic",
    "_get_mkldnn_enabled",
    "_get_nnpack_enabled",
    "_get_onednn_allow_tf32",
)
_PRECISIONS = (
    ("generic", "all"),
    *((backend, part) for backend in ("cuda", "mkldnn") for part in ("all", "matmul", "conv", "rnn")),
)


def _conversion(torch: Any) -> tuple[bool, bool]:
    """How a module's ``to`` and ``load_state_dict`` put new parameters in place of old ones."""
    future = torch.__future__
    return (
        future.get_overwrite_module_params_on_conversion(),
        future.get_swap_module_params_on_conversion(),
    )


def _registered_backends() -> tuple[str, ...]:
    backend = _loaded("torch.distributed.distributed_c10d", "Backend", None)
    return tuple(getattr(backend, "backend_list", ()))


def _stance() -> str:
    """Whether compiled functions run compiled (``torch.compiler.set_stance``)."""
    return str(getattr(_loaded("torch._dynamo.eval_frame", "_stance", None), "stance", "default"))


def _logs() -> str:
    """What ``torch._logging.set_logs`` has been asked to show."""
    state = _loaded("torch._logging._internal", "log_state", None)
    levels, artifacts = getattr(state, "log_qname_to_level", {}), getattr(state, "artifact_names", ())
    return f"{sorted(levels.items())} {sorted(artifacts)}"


def _sharing_strategy() -> str:
    """How tensors reach other processes; in a fork of this one, too."""
    ask = _loaded("torch.multiprocessing", "get_sharing_strategy", None)
    return str(ask()) if ask is not None else ""


def _compiled() -> int:
    """How many functions dynamo has compiled and keeps."""
    codes = _loaded("torch._dynamo.convert_frame", "input_codes", None)
    return len(getattr(codes, "seen", ()))


def _operators(torch: Any) -> tuple[int, int]:
    """How many operators Python code has defined, by ``Library.define`` and by ``custom_op``."""
    custom = _loaded("torch._library.custom_ops", "OPDEFS", ())
    return len(getattr(torch.library, "_defs", ())), len(custom)


def _pytree_nodes() -> frozenset[Any]:
    """The classes that are containers to torch (``torch.utils._pytree``), without torch's own."""
    home = "torch.utils._pytree"
    nodes = (*_loaded(home, "SUPPORTED_NODES", ()), *_loaded(home, "CONSTANT_NODES", ()))
    return frozenset(each for each in nodes if each.__module__.partition(".")[0] != "torch")


def _loading(torch: Any) -> tuple[Any, ...]:
    """The classes that ``torch.load`` may read, without torch's own, and how many devices it reads for."""
    named = (e[0] if isinstance(e, tuple) else e for e in torch.serialization.get_safe_globals())
    safe = frozenset(each for each in named if each.__module__.partition(".")[0] != "torch")
    return safe, len(torch.serialization._package_registry)


def _tracing_rules() -> tuple[frozenset[int], ...]:
    """The functions of which a program has told dynamo to trace them otherwise, by identity."""
    rules = [_loaded("torch._dynamo.trace_rules", name, None) for name in _RULES]
    return tuple(_changed_rules(each) for each in rules)


def _changed_rules(rules: Any) -> frozenset[int]:
    """Those that differ from torch's own, which dynamo adds when it first asks for them."""
    ids = getattr(rules, "function_ids", None)
    return frozenset() if ids is None else frozenset(ids ^ set(rules.lazy_initializer()))


_RULES = ("_allowed_callable_ids", "_disallowed_callable_ids", "_nonstrict_trace_callable_ids")


def _config_settings() -> tuple[str, ...]:
    """The changed settings, where torch keeps them in attributes; later releases use context variables."""
    entries = ((name, sys.modules.get(name)) for name in _CONFIG_MODULES)
    found = ((home, getattr(module, "_config", {}).items()) for home, module in entries)
    return tuple(
        f"{home}.{name}={entry.user_override!r}"
        for home, each in found
        for name, entry in each
        if not isinstance(entry.user_override, ContextVar) and type(entry.user_override) is not object
    )


_CONFIG_MODULES = (
    *("torch._dynamo.config", "torch._inductor.config", "torch._functorch.config"),
    "torch.utils.serialization.config",
)


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
    Item("float32 matmul precision", _matmul_precision),
    Item("dispatch modes", lambda t: t._C._len_torch_dispatch_stack(), "0"),
    Item("function modes", lambda t: t._C._len_torch_function_stack(), "0"),
    Item("torch.distributed's debug level", lambda t: _debug_level()),
    Item("DTensor's RNG tracker", lambda t: id(_rng_tracker())),
    Item("saved-tensor hooks", _saved_tensor_hooks, "(True, None)"),
    Item("forward AD level", lambda t: _loaded("torch.autograd.forward_ad", "_current_level", -1), "-1"),
    Item("functorch level", lambda t: t._C._functorch.maybe_current_level(), "None"),
    Item("device mesh stack", lambda t: _mesh_stack(), "0"),
    Item("hooks of all modules", lambda t: _module_hooks(), "0"),
)

# What a process that is to be forked must not have either; the leak guard does not look at it.
REGISTRIES: tuple[Item, ...] = (
    Item("accelerator autocast", lambda t: t.is_autocast_enabled("cuda"), "False"),
    Item("autocast dtype", lambda t: t.get_autocast_dtype("cpu"), "torch.bfloat16"),
    Item("autocast cache", lambda t: t.is_autocast_cache_enabled(), "True"),
    Item("multithreaded backward", lambda t: t._C._is_multithreading_enabled(), "True"),
    Item("checks of sparse tensors", lambda t: t.sparse.check_sparse_tensor_invariants.is_enabled(), "False"),
    Item("print options", lambda t: _print_options(t), "[4, 1000, 3, 80, None]"),
    Item("functional collectives under way", lambda t: _works(t), "0"),
    Item("symmetric-memory groups", lambda t: _symmetric_memory(), "0"),
    Item("rpc agent", lambda t: _has_rpc_agent(), "False"),
    Item("compiled functions", lambda t: _compiled(), "0"),
)

# What imports have a part in: operators that modules define, switches that they set.
OF_IMPORTS: tuple[Item, ...] = (
    Item("float32 matmul precision", _matmul_precision),
    Item("switches of torch.backends", _backend_switches),
    Item("warn-always", lambda t: t.is_warn_always_enabled()),
    Item("filling of new memory", lambda t: t._C._get_deterministic_fill_uninitialized_memory()),
    Item("conversion of modules", _conversion),
    Item("torch.distributed's debug level", lambda t: _debug_level()),
    Item("DTensor's RNG tracker", lambda t: _rng_tracker() is not None),
    Item("registered backends", lambda t: _registered_backends()),
    Item("sharing strategy", lambda t: _sharing_strategy()),
    Item("logs of torch", lambda t: _logs()),
    Item("stance of the compiler", lambda t: _stance()),
    Item("operators of torch.library", lambda t: _operators(t)),
    Item("containers of pytree", lambda t: _pytree_nodes()),
    Item("what torch.load may read", _loading),
    Item("functions that dynamo traces otherwise", lambda t: _tracing_rules()),
    Item("inter-op threads", lambda t: t.get_num_interop_threads()),
    Item("settings in torch's config modules", lambda t: _config_settings()),
)
