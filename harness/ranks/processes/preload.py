"""Decides what is imported before ranks are forked: torch, what every rank needs, the parts of the compiler.

dynamo, AOTAutograd and inductor import most of their modules, networkx and half of sympy when something is
compiled for the first time (pytorch/pytorch#149872). A rank that is forked from a process which has done so
compiles its first function in a fifth of the time; the modules are imported once for all ranks, which share
their memory.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable

from harness import compiler_state
from harness.communication.taps.warm_up import prepare_forks
from harness.system import gpu_count

# Modules that import all the others, by the part of the compiler that needs them. Found by comparing
# sys.modules before and after a first compile; this module's self-test fails where torch imports others.
TRACING = (
    "_pytest.raises",  # dynamo asks whether a context manager is one of pytest's, whoever runs the tests
    "_pytest.recwarn",
    "torch._dynamo.testing",
    "torch._dynamo.dce_extra_outputs",
    "torch._dynamo.repro.after_dynamo",
    "torch._export.passes._node_metadata_hook",
    "torch._higher_order_ops.passes.inline_invoke_subgraph",
    "torch._inductor.compiler_bisector",
    "torch._subclasses.schema_check_mode",
    "torch.distributed.tensor.experimental",
    "torch.export._trace",
    "torch.fx.experimental.validator",
)
AOT = (
    "torch._functorch.aot_autograd",
    "torch._functorch._aot_autograd.subclass_codegen",
    "torch._inductor.compile_fx",
)
INDUCTOR = (
    "sympy.physics.units",
    "sympy.tensor.tensor",
    "torch._inductor.choices",
    "torch._inductor.codegen.cpp_wrapper_cpu_array_ref",
    "torch._inductor.codegen.cpp_wrapper_mps",
    "torch._inductor.codegen.cpu_device_op_overrides",
    "torch._inductor.codegen.cuda.device_op_overrides",
    "torch._inductor.codegen.cuda_combined_scheduling",
    "torch._inductor.codegen.halide",
    "torch._inductor.codegen.memory_planning",
    "torch._inductor.codegen.mps_device_op_overrides",
    "torch._inductor.codegen.mtia.device_op_overrides",
    "torch._inductor.codegen.pallas",
    "torch._inductor.codegen.python_wrapper_mtia",
    "torch._inductor.codegen.rocm.rocm_cpp_scheduling",
    "torch._inductor.codegen.wrapper_fxir",
    "torch._inductor.codegen.xpu.device_op_overrides",
    "torch._inductor.codegen.xpu.xpu_combined_scheduling",
    "torch._inductor.extern_node_serializer",
    "torch._inductor.fx_passes.apply_gumbel_max_trick",
    "torch._inductor.fx_passes.efficient_conv_bn_eval",
    "torch._inductor.fx_passes.freezing_patterns",
    "torch._inductor.fx_passes.fuse_attention",
    "torch._inductor.fx_passes.mkldnn_fusion",
    "torch._inductor.fx_passes.pad_mm",
    "torch._inductor.fx_passes.quantization",
    "torch._inductor.runtime.caching",
    "torch.utils._cpp_embed_headers",
    "torch.utils.cpp_extension",
)


def import_torch() -> None:
    """Imports torch in a server that is a new interpreter; a forked server has its parent's torch."""
    gpu_count.tell(importlib.import_module("torch"))


def import_for_ranks(names: Iterable[str]) -> None:
    """Imports what every rank would otherwise import for itself: ``names``, and what tests with torch need.

    A server calls it after it has imported a test's module and before it forks the first rank.
    """
    import_modules(names)
    if "torch" in sys.modules:
        importlib.import_module("harness.tensors")
        prepare_forks()
    if "numpy" in sys.modules:
        importlib.import_module("numpy.random")  # numpy loads it lazily, and every test is seeded


def import_modules(names: Iterable[str]) -> None:
    """Imports the modules, without an error where one does not import: the test that uses it will tell."""
    for name in names:
        with contextlib.suppress(Exception):  # an import may raise anything
            importlib.import_module(name)


def preload_compiler(*, inductor: bool = False) -> None:
    """Imports what compiling needs; to be called at the top of a module whose tests compile.

    From then on dynamo does less for logs alone (``compiler_state.leave_guards_untimed`` and
    ``leave_lines_unnamed``). Runs no operator and starts neither a thread nor a process, so this process can
    still be forked. It takes about a second, once; importing ``harness.cases.dynamo`` does it. Modules that
    this version of torch does not have are left out.
    Each rank would otherwise import them at its first compile (pytorch/pytorch#149872).

    ``inductor`` is for tests that compile by it for the CPU: its patterns of attention are made as well, by
    operators on fake tensors. That takes half a second, as it would in each rank.
    """
    import torch.compiler

    for name in (*TRACING, *AOT, *INDUCTOR):
        if name not in sys.modules and exists(name):
            importlib.import_module(name)
    compiler_state.leave_guards_untimed()
    compiler_state.leave_lines_unnamed()
    torch.compiler.list_backends()  # the first look-up of a backend's name imports all of them
    _list_overridable()
    if inductor:
        _make_patterns()


def _list_overridable() -> None:
    """Has dynamo list torch's functions that a tensor's class may override, as it does in a first compile."""
    functions = sys.modules.get("torch._dynamo.variables.torch")
    make = getattr(functions, "get_overridable_functions", None)
    if make is not None:
        make()


def _make_patterns() -> None:
    """Has inductor make what it looks for in graphs for the CPU, where this torch's can be asked to."""
    import torch
    from torch._guards import tracing
    from torch._inductor.fx_passes import fuse_attention
    from torch._subclasses.fake_tensor import FakeTensorMode

    make = getattr(fuse_attention, "_sfdp_init", None)
    if make is not None:
        with tracing(None), FakeTensorMode():  # as inductor calls it
            make(torch.device("cpu"))


def exists(name: str) -> bool:
    """Whether the module can be found; its package is imported to find out."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # its package is missing as well
        return False
