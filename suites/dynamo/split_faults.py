"""Faults of DDPOptimizer and of what it gives the backend: where graphs are split, and the pieces."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import torch
import torch._dynamo
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.parallel import DistributedDataParallel

from suites.fsdp.mutants import BACKEND
from suites.planting import replacing, switched

# -- where graphs are split

OPTIMIZER = "torch._dynamo.backends.distributed:DDPOptimizer"
COMPILER = "torch._dynamo.backends.distributed:SubmodCompiler"
FAR = 1 << 60


def _parameters(graph, inputs):
    """The parameters of a graph that take gradients, also those of modules that it calls."""
    given = [each for each in inputs if isinstance(each, nn.Parameter)]
    return [each for each in (*given, *graph.parameters()) if each.requires_grad]


def _would_split(self, graph, inputs, **options):
    """Whether there is more than the first bucket takes, and more than one operator to take it."""
    size = sum(each.untyped_storage().nbytes() for each in _parameters(graph, inputs))
    return size > self.first_bucket_cap and sum("call" in node.op for node in graph.graph.nodes) > 1


def _could_split(self, graph, inputs, **options):
    """Whether several layers share a bucket: not each operator fills one by its own parameters."""
    sizes = [sum(each.untyped_storage().nbytes() for each in _taken(node)) for node in graph.graph.nodes]
    filled = [size for size in sizes if size]
    return len(filled) > 1 and any(size < self.bucket_bytes_cap for size in filled)


def _taken(node) -> list[nn.Parameter]:
    """The parameters that an operator takes, and that take gradients."""
    given = (each.meta.get("example_value") for each in node.all_input_nodes if each.op == "placeholder")
    return [each for each in given if isinstance(each, nn.Parameter) and each.requires_grad]


def _with_caps(change):
    def faulty(original, self, graph, inputs, **options):
        self.first_bucket_cap, self.bucket_bytes_cap = change(self.first_bucket_cap, self.bucket_bytes_cap)
        return original(self, graph, inputs, **options)

    return faulty


def _count_elements(original, self, bucket, param, name):
    original(self, bucket, param, name)
    bucket.size += param.numel() - param.untyped_storage().nbytes()


def _count_frozen(original, self, bucket, node):
    original(self, bucket, node)
    for value in _frozen(node):
        self.add_param(bucket, value, str(value))


def _frozen(node) -> Iterable[nn.Parameter]:
    inputs = (arg for arg in node.args if isinstance(arg, torch.fx.Node) and arg.op == "placeholder")
    values = (arg.meta["example_value"] for arg in inputs)
    return [each for each in values if isinstance(each, nn.Parameter) and not each.requires_grad]


def _mark_is_forgotten(original, self):
    """The mark of the active module, which an inner one's forward takes away with its own."""

    @contextlib.contextmanager
    def inside():
        DistributedDataParallel._active_ddp_module = self
        try:
            yield
        finally:
            DistributedDataParallel._active_ddp_module = None

    return inside()


SPLITS = (
    replacing(
        "never_splits",
        "no bucket is ever full",
        f"{OPTIMIZER}.compile_fn",
        _with_caps(lambda first, others: (FAR, FAR)),
        _would_split,
    ),
    replacing(
        "always_splits",
        "each operator with a parameter fills a bucket",
        f"{OPTIMIZER}.compile_fn",
        _with_caps(lambda first, others: (1, 1)),
        _could_split,
    ),
    replacing(
        "first_cap_forgotten",
        "the first bucket is as large as the others",
        f"{OPTIMIZER}.compile_fn",
        _with_caps(lambda first, others: (others, others)),
        lambda self, graph, inputs, **_: (
            self.first_bucket_cap < self.bucket_bytes_cap and _would_split(self, graph, inputs)
        ),
    ),
    replacing(
        "cap_is_exceeded_only",
        "a bucket that is just full takes one more",
        f"{OPTIMIZER}.compile_fn",
        _with_caps(lambda first, others: (first + 1, others + 1)),
        lambda self, graph, inputs, **_: (
            _would_split(self, graph, inputs)
            and all(p.untyped_storage().nbytes() == self.first_bucket_cap for p in _parameters(graph, inputs))
        ),
    ),
    replacing(
        "elements_for_bytes",
        "parameters count for their elements",
        f"{OPTIMIZER}.add_param",
        _count_elements,
        lambda self, bucket, param, name: param.numel() > 0,
    ),
    replacing(
        "ignored_parameters_count",
        "DDP's mark is never honoured",
        f"{OPTIMIZER}._ignore_parameter",
        lambda original, self, parameter: False,
        lambda self, parameter: getattr(parameter, "_ddp_ignored", False),
    ),
    replacing(
        "all_parameters_ignored",
        "nothing counts",
        f"{OPTIMIZER}._ignore_parameter",
        lambda original, self, parameter: True,
        lambda self, parameter: not getattr(parameter, "_ddp_ignored", False),
    ),
    replacing(
        "frozen_parameters_count",
        "parameters without gradients count",
        f"{OPTIMIZER}.add_param_args",
        _count_frozen,
        lambda self, bucket, node: bool(_frozen(node)),
    ),
    replacing(
        "active_module_is_forgotten",
        "behind an inner DDP nothing is split",
        "torch.nn.parallel.distributed:DistributedDataParallel._inside_ddp_forward",
        _mark_is_forgotten,
        lambda self: DistributedDataParallel._active_ddp_module is not None,
    ),
)

# -- what the pieces are compiled with


def _contiguous(original, self, module, args, kwargs):
    told = [each.contiguous() if isinstance(each, torch.Tensor) else each for each in args]
    return original(self, module, told, kwargs)


def _strides_matter(self, module, args, kwargs):
    return any(isinstance(each, torch.Tensor) and not each.is_contiguous() for each in args)


def _all_the_same(original, whole, split):
    for module in split.children():
        module.meta = whole.meta


def _has_bodies(whole, split):
    return any("_checkpoint_context_fn" in getattr(module, "meta", ()) for module in whole.children())


def _other_grad_mode(original, self, graph, inputs):
    (mode,) = _entered_grad_mode(graph)
    mode.args = (not mode.args[0],)
    graph.recompile()
    return original(self, graph, inputs)


def _entered_grad_mode(graph):
    """The call by which a graph starts that sets gradients on or off; none or one."""
    calls = [node for node in graph.graph.nodes if node.op == "call_function"]
    return [node for node in calls[:1] if node.target is torch._C._set_grad_enabled]


def _lose_input_gradients(touch, faulty):
    """A fault of a backend: the gradients of a graph's inputs, where they are leaves, come out zero."""
    original = CompileCounterWithBackend.__call__

    def arrives(gradient):
        touch()
        return gradient * 0 if faulty else gradient

    def watched(value):
        if not isinstance(value, torch.Tensor) or isinstance(value, nn.Parameter):
            return value
        if not (value.is_leaf and value.requires_grad):
            return value
        value = value.view_as(value)
        value.register_hook(arrives)
        return value

    def call(self, graph, inputs):
        compiled = original(self, graph, inputs)
        return torch._dynamo.disable(lambda *args: compiled(*map(watched, args)))

    CompileCounterWithBackend.__call__ = call


def _writes_once(touch, faulty):
    """A fault of a backend: from its second call on, a graph leaves its inputs as they were."""
    original = CompileCounterWithBackend.__call__

    def call(self, graph, inputs):
        compiled, calls = original(self, graph, inputs), []

        def run(*args):
            calls.append(args)
            given = [each for each in args if isinstance(each, torch.Tensor)]
            before = [each.detach().clone() for each in given]
            results = compiled(*args)
            for each, kept in zip(given, before, strict=True):
                if len(calls) > 1 and not torch.equal(each, kept):
                    touch()
                    if faulty:
                        each.detach().copy_(kept)
            return results

        return torch._dynamo.disable(run)

    CompileCounterWithBackend.__call__ = call


PIECES = (
    replacing(
        "grad_modes_are_swapped",
        "a graph that sets gradients on sets them off, and the other way round",
        BACKEND,
        _other_grad_mode,
        lambda self, graph, inputs: bool(_entered_grad_mode(graph)),
    ),
    switched(
        "input_gradients_are_lost",
        "the model's inputs get gradients of zero",
        _lose_input_gradients,
    ),
    switched(
        "graphs_write_once",
        "what a graph writes to its inputs is there after its first call only",
        _writes_once,
    ),
    replacing(
        "strides_are_assumed",
        "each piece is compiled for contiguous inputs",
        f"{COMPILER}.compile_submod",
        _contiguous,
        _strides_matter,
    ),
    replacing(
        "policies_are_lost",
        "checkpointed regions are given the whole graph's notes",
        "torch._dynamo.backends.distributed:propagate_metadata",
        _all_the_same,
        _has_bodies,
    ),
    replacing(
        "overrides_are_lost",
        "settings for single graphs do not reach the pieces",
        f"{OPTIMIZER}.compile_fn",
        lambda original, self, graph, inputs, **options: original(self, graph, inputs),
        lambda self, graph, inputs, **options: bool(options),
    ),
    replacing(
        "marks_are_ignored",
        "dimensions marked as dynamic are not",
        "torch._dynamo:mark_dynamic",
        lambda original, *args, **kwargs: None,
    ),
)
