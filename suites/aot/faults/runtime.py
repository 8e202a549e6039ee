"""Faults of what runs around a compiled graph: the writes after it, the aliases, the outputs, the checks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from suites.aot.faults.planted import changing, instead
from suites.planting import Mutant, Touch, replacing

WRAPPERS = "torch._functorch._aot_autograd.runtime_wrappers"
POST_COMPILE = f"{WRAPPERS}:RuntimeWrapper.post_compile"


def _around_calls(name: str, what: str, around: Callable[..., Any]) -> Mutant:
    """A mutant of the calls of compiled functions: ``around(metadata, function, args, touch, active)``."""

    def faulty(original: Callable[..., Any], touch: Touch, active: bool) -> Callable[..., Any]:
        @functools.wraps(original)
        def post_compile(self: Any, compiled: Any, config: Any, *, runtime_metadata: Any) -> Any:
            function = original(self, compiled, config, runtime_metadata=runtime_metadata)
            if function is compiled:  # a graph that is exported, around which nothing runs
                return function

            @functools.wraps(function)
            def call(args: list[Any]) -> Any:
                return around(runtime_metadata, function, args, touch, active)

            call._boxed_call = True
            return call

        return post_compile

    return instead(name, what, (POST_COMPILE,), faulty)


# -- writes after the graph


def _undo_writes(metadata: Any, function: Any, args: list[Any], touch: Touch, active: bool) -> Any:
    """Data goes back to what it was before the call; sizes and strides do not."""
    written = [
        args[index]
        for index in metadata.mutated_inp_runtime_indices
        if metadata.input_info[index].mutates_data and not metadata.input_info[index].mutates_metadata
    ]
    before = [tensor.detach().clone() for tensor in written]
    outputs = function(args)
    if written:
        touch()
    if active:
        for tensor, value in zip(written, before, strict=True):
            with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(tensor):
                tensor.copy_(value)
    return outputs


def _undo_metadata(metadata: Any, function: Any, args: list[Any], touch: Touch, active: bool) -> Any:
    given = [
        args[index]
        for index in metadata.mutated_inp_runtime_indices
        if metadata.input_info[index].mutates_metadata
    ]
    before = [(tensor.size(), tensor.stride(), tensor.storage_offset()) for tensor in given]
    outputs = function(args)
    if given:
        touch()
    if active:
        for tensor, sizes in zip(given, before, strict=True):
            tensor.as_strided_(*sizes)
    return outputs


def _copy(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return original(*args, **kwargs).clone()


# -- outputs


def _on_outputs(
    name: str, what: str, find: Callable[[Any], bool], change: Callable[[torch.Tensor], Any]
) -> Mutant:
    """A mutant of the first output, of those that nothing aliases, for which ``find`` is true."""

    def around(metadata: Any, function: Any, args: list[Any], touch: Touch, active: bool) -> Any:
        outputs = list(function(args))
        infos = metadata.output_info
        bases = {info.base_idx for info in infos}
        for index, info in enumerate(infos):
            fresh = info.output_type.name == "non_alias" and index not in bases
            if fresh and isinstance(outputs[index], torch.Tensor) and find(outputs[index]):
                touch()
                if active:
                    outputs[index] = change(outputs[index])
                break
        return outputs

    return _around_calls(name, what, around)


def _is_matrix(output: torch.Tensor) -> bool:
    return type(output) is torch.Tensor and output.dim() == 2 and min(output.shape) > 1


def _kept(original: Callable[..., Any], touch: Touch, active: bool) -> Callable[..., Any]:
    """The first call's outputs are where each later call of the same sizes has its own."""

    @functools.wraps(original)
    def post_compile(self: Any, compiled: Any, config: Any, *, runtime_metadata: Any) -> Any:
        function = original(self, compiled, config, runtime_metadata=runtime_metadata)
        if function is compiled:
            return function
        infos = runtime_metadata.output_info
        bases = {info.base_idx for info in infos}
        kept: dict[int, torch.Tensor] = {}

        @functools.wraps(function)
        def call(args: list[Any]) -> Any:
            outputs = function(args)
            for index, (info, output) in enumerate(zip(infos, outputs, strict=False)):
                fresh = info.output_type.name == "non_alias" and index not in bases
                if not fresh or type(output) is not torch.Tensor or not output.numel():
                    continue
                first = kept.setdefault(index, output.detach())
                if first.data_ptr() == output.data_ptr() or _layout(first) != _layout(output):
                    continue
                touch()
                if active:
                    output.data = first.copy_(output.detach())
            return outputs

        call._boxed_call = True
        return call

    return post_compile


def _layout(tensor: torch.Tensor) -> Any:
    return tensor.dtype, tensor.layout, tensor.shape, tensor.stride()


# -- checks and caches


def _unchecked(original: Callable[..., Any], touch: Touch, active: bool) -> Callable[..., Any]:
    """Calls what was compiled, whatever the check says."""

    @functools.wraps(original)
    def post_compile(self: Any, compiled: Any, config: Any, *, runtime_metadata: Any) -> Any:
        checked = original(self, compiled, config, runtime_metadata=runtime_metadata)
        if checked is compiled:
            return checked

        @functools.wraps(checked)
        def call(args: list[Any]) -> Any:
            kept = list(args)
            try:
                return checked(args)
            except AssertionError as error:
                if "guard bug" not in str(error):
                    raise
                touch()
                if not active:
                    raise
                return compiled(kept)

        call._boxed_call = True
        return call

    return post_compile


def _found(result: Any, *_: Any) -> bool:
    return result is not None


RUNTIME: tuple[Mutant, ...] = (
    _around_calls("write_after_graph_is_lost", "an input's data is as it was before the call", _undo_writes),
    _around_calls(
        "metadata_write_is_lost",
        "an input's sizes and strides are as they were before the call",
        _undo_metadata,
    ),
    replacing(
        "alias_is_a_copy",
        "an output that should be a view of an input or another output is a copy",
        f"{WRAPPERS}:gen_alias_from_base",
        _copy,
    ),
    _on_outputs(
        "stride_is_wrong",
        "a matrix is returned column by column",
        _is_matrix,
        lambda output: output.t().contiguous().t() if output.is_contiguous() else output.contiguous(),
    ),
    _on_outputs("dtype_is_wrong", "an output is widened", torch.is_floating_point, torch.Tensor.double),
    _on_outputs(
        "output_is_detached",
        "an output takes no part in the backward",
        lambda o: o.requires_grad,
        torch.detach,
    ),
    _on_outputs(
        "value_is_wrong",
        "the last element of an output is one too large",
        lambda output: type(output) is torch.Tensor and output.numel() > 0 and output.is_floating_point(),
        lambda output: output + _last(output),
    ),
    instead(
        "outputs_are_static",
        "each call returns its outputs in the memory of the first call's",
        (POST_COMPILE,),
        _kept,
    ),
    instead(
        "assumption_is_not_checked",
        "a function is called with what it was not compiled for, without a word",
        (f"{WRAPPERS}:DebugAssertWrapper.post_compile", f"{WRAPPERS}:AOTDedupeWrapper.post_compile"),
        _unchecked,
    ),
    changing(
        "cache_never_hits",
        "the autograd cache has nothing of what was saved",
        ("torch._functorch._aot_autograd.autograd_cache:AOTAutogradCache._lookup",),
        _found,
        lambda result, found: None,
    ),
)


def _last(output: torch.Tensor) -> torch.Tensor:
    """One for the last element, and zeros."""
    return (
        (torch.arange(output.numel(), device=output.device) == output.numel() - 1)
        .reshape(output.shape)
        .to(output.dtype)
    )
