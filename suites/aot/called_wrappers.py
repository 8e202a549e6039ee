"""What expressions about wrappers use: the sources that are written, and what is done before and after."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._functorch import config
from torch._functorch._aot_autograd import (
    input_output_analysis,
    runtime_wrappers,
    schemas,
)
from torch._functorch._aot_autograd.descriptors import PlainAOTInput, PlainAOTOutput
from torch._guards import TracingContext, tracing
from torch.utils._pytree import tree_structure

from suites.aot.base import ramp
from suites.aot.called import FAKE, graph, input_info, metadata
from suites.aot.decisions import kind
from suites.aot.wrappers import record, text

OutputType = schemas.OutputType


def output_info(output_type: str = "non_alias", **fields: Any) -> schemas.OutputAliasInfo:
    """What is known of a result."""
    names = [each.name for each in dataclasses.fields(schemas.OutputAliasInfo)]
    given = {**dict.fromkeys(names), "raw_type": Tensor, "requires_grad": False}
    given["requires_grad_for_backward"] = False
    return schemas.OutputAliasInfo(**{**given, "output_type": OutputType[output_type], **fields})


def aot_config(**fields: Any) -> schemas.AOTConfig:
    """Settings of a compilation that has no compilers."""
    given = dict.fromkeys(("fw_compiler", "bw_compiler", "partition_fn", "decompositions"))
    numbers = {"num_params_buffers": 0, "aot_id": 0, "keep_inference_input_mutations": False}
    return schemas.AOTConfig(**{**given, **numbers, **fields})


def value_text(value: Any) -> str:
    """A value in a word, a tensor with its strides and whether it wants a gradient."""
    if inspect.ismodule(value) or inspect.isroutine(value) or isinstance(value, type):
        return value.__name__
    if isinstance(value, Tensor):
        return f"{kind(value)}{'*' if value.requires_grad else ''}"
    return text(value)


def sources(call: Callable[[], Any]) -> list[str]:
    """The sources that are written in a call, each with what it knows by name."""
    from torch._functorch._aot_autograd import subclass_codegen  # torch 2.11 has none

    lines: list[str] = []
    finish = subclass_codegen._compile_and_exec_source

    def noting(source: str, names: dict[str, Any], function: str, artifact: str, **more: Any) -> Any:
        lines.extend([f"{artifact} {function} {' '.join(more)}".rstrip(), *source.splitlines()])
        lines.extend(f"{name}: {value_text(of)}" for name, of in sorted(names.items()))
        return finish(source, names, function, artifact, **more)

    with mock.patch.object(subclass_codegen, "_compile_and_exec_source", noting):
        found = call()
    return [*lines, f"boxed: {getattr(found, '_boxed_call', False)}"]


def _of_subclasses(_: Any, metas: Any = None) -> Any:
    from torch._functorch._aot_autograd import subclass_codegen

    return subclass_codegen.codegen_backward_subclass_fns(metas)


def _around_subclasses(found: Any, saved: int | None = None, frozen: list[Any] | None = None) -> Any:
    made = runtime_wrappers.AOTDispatchSubclassWrapper(False, None, schemas.SubclassMeta(), saved)
    context = TracingContext(FAKE)
    context.params_flat = frozen
    with tracing(context):
        return made.post_compile(len, aot_config(), runtime_metadata=found)


#: Functions that write a wrapper of a record; more is given to them by name.
WRITERS: dict[str, Callable[..., Any]] = {
    "prologue": lambda found, subclasses=None, unwrap=None: runtime_wrappers._codegen_backward_prologue(
        found, subclasses, unwrap
    ),
    "epilogue": lambda found, subclasses=None, wrap=None: runtime_wrappers._codegen_backward_epilogue(
        found, subclasses, wrap
    ),
    "forward": lambda found, states=(), no_amp=False, rng=0: runtime_wrappers._codegen_compiled_forward(
        found, list(states), no_amp, rng
    ),
    "backward": lambda _, rng=0, unchecked=None, wants=False: runtime_wrappers._codegen_compiled_backward(
        rng, unchecked, wants
    ),
    "runtime": lambda found, detach=(), joint=False, keep=False, no_amp=False: (
        runtime_wrappers._create_runtime_wrapper(
            len,
            runtime_metadata=found,
            indices_of_inps_to_detach=list(detach),
            trace_joint=joint,
            keep_input_mutations=keep,
            disable_amp=no_amp,
        )
    ),
    "dedupe": lambda found, mask=(True, True): runtime_wrappers.AOTDedupeWrapper(
        keep_arg_mask=list(mask)
    ).post_compile(len, aot_config(), runtime_metadata=found),
    "tokens": lambda found: runtime_wrappers.EffectTokensWrapper().post_compile(
        len, aot_config(), runtime_metadata=found
    ),
    "rng": lambda found, all_outs=True: runtime_wrappers.FunctionalizedRngRuntimeWrapper(
        all_outs
    ).post_compile(len, aot_config(), runtime_metadata=found),
    "bases": lambda found, groups=None, other=(), changed=(): runtime_wrappers.AOTSyntheticBaseWrapper(
        False,
        aliased_arg_idx_with_metadata_mutations=list(changed),
        base_groups=groups or {0: [0, 1]},
        other_arg_indices=list(other),
    ).post_compile(len, aot_config(), runtime_metadata=found),
    "subclasses": _around_subclasses,
    "backward of subclasses": _of_subclasses,
}


def wrapper(name: str, given: dict[str, Any] | None = None, **fields: Any) -> str:
    """What is written of a record with these fields; but for a plain one, only what differs from that."""
    write = WRITERS[name]
    plain = sources(lambda: write(metadata()))
    if given is None and not fields:
        return "\n".join(plain)
    found = sources(lambda: write(metadata(**fields), **(given or {})))
    return "\n".join(line for line in difflib.ndiff(plain, found) if line[:2] in ("+ ", "- ")) or "the same"


def recorded(found: schemas.ViewAndMutationMeta) -> str:
    """What a record says."""
    descs = " ".join(each.expr() for each in found.traced_tangents_descs)
    types = [f"{name}: {value_text(getattr(found, name))}" for name in ("output_types", "dynamic_outputs")]
    return "\n".join((*record(found), f"descs: {descs}", *types))


def handler(output_type: str, joint: bool, base: int = 1, **fields: Any) -> str:
    """What is done with a result of a kind that is an alias of that input or result; all three have it."""
    infos = [output_info(output_type, base_idx=base, **fields) for _ in range(3)]
    made = runtime_wrappers.make_output_handler(infos[0], metadata(output_info=infos), joint)
    return f"{type(made).__name__} {' '.join(f'{name}={value_text(of)}' for name, of in vars(made).items())}"


def merged(inputs: Sequence[Any], written: Sequence[int], inference: bool = False, **fields: Any) -> str:
    """How inputs are merged into bases where those of the numbers are written."""
    infos = [input_info(mutates_data=number in written) for number in range(len(inputs))]
    descs = [PlainAOTInput(number) for number in range(len(inputs))]
    args, found, meaning = runtime_wrappers.merge_view_inputs(
        aot_config(**fields), list(inputs), descs, infos, is_inference=inference
    )
    return "\n".join(
        (
            " ".join(map(value_text, args)),
            " ".join(each.expr() for each in found),
            " ".join(map(_place, meaning)) if meaning else "as they are",
        )
    )


def _place(of: Any) -> str:
    return str(of) if isinstance(of, int) else f"{of[0]}:{kind(of[1])}"


def before(wrapper: Any, inputs: Sequence[Any], infos: Sequence[Any], **fields: Any) -> str:
    """What a wrapper makes of inputs and of the record, and what the function then gets and gives."""
    got: list[Any] = []

    def function(*args: Any) -> Any:
        got.extend(args)
        return [each for each in args if isinstance(each, Tensor)][:1], [PlainAOTOutput(0)]

    outs = fields.pop("output_info", [output_info()])
    descs = [PlainAOTInput(number) for number in range(len(inputs))]
    found = metadata(input_info=list(infos), output_info=outs)
    call, args, args_descs, updated = wrapper.pre_compile(
        function, list(inputs), descs, aot_config(**fields), fw_metadata=found
    )
    given, given_descs = call(*args)
    state = {name: of for name, of in sorted(vars(wrapper).items()) if name != "old_input_metadata"}
    return "\n".join(
        (
            f"args {' '.join(map(value_text, args))}",
            f"descs {' '.join(each.expr() for each in args_descs)}",
            f"same args {[any(each is of for of in inputs) for each in args]}",
            f"gets {' '.join(map(value_text, got))}",
            f"gives {' '.join(map(value_text, given))} {' '.join(each.expr() for each in given_descs)}",
            f"has {' '.join(f'{name}={value_text(of)}' for name, of in state.items())}",
            recorded(updated),
        )
    )


def signature(
    inputs: str, outputs: str, parameters: Sequence[bool], users: Sequence[bool], **fields: Any
) -> Any:
    """The signature of a graph with those inputs and results, and that many parameters and user's inputs.

    ``True`` stands for one that wants a gradient. The last ``buffers`` of the parameters are none.
    """

    def build(made: Any) -> Any:
        nodes = {name: made.placeholder(name) for name in inputs.split()}
        return [
            nodes[name]
            if name in nodes
            else made.create_node("call_function", torch.sin, (nodes[inputs.split()[0]],), name=name)
            for name in outputs.split()
        ]

    buffers = fields.pop("buffers", 0)
    joint = {"trace_joint": False, "num_user_fw_outs": None, "loss_index": None}
    options = {name: fields.pop(name, of) for name, of in joint.items()}
    names = [f"p{number}" for number in range(len(parameters))]
    found = input_output_analysis.create_graph_signature(
        graph(build),
        metadata(**fields),
        tree_structure(0),
        tree_structure(0),
        user_args_flat=[ramp(1).requires_grad_(wants) for wants in users],
        params_and_buffers_flat=[ramp(1).requires_grad_(wants) for wants in parameters],
        param_names=names[: len(names) - buffers],
        buffer_names=names[len(names) - buffers :],
        **options,
    )
    return "\n".join(f"{name}: {value_text(of)}" for name, of in vars(found).items() if "spec" not in name)


def saved_by(outs: Sequence[Any], **fields: Any) -> str:
    """What a forward leaves for its backward of its results."""
    left: dict[str, Any] = {}
    ctx = SimpleNamespace(save_for_backward=lambda *tensors: left.update(saved=list(tensors)))
    dynamic = fields.pop("dynamic", {})
    found = metadata(**fields)
    found.dynamic_saved_tensors_idxs = dynamic
    runtime_wrappers._AutogradSavedState(found).save_from_forward(ctx, list(outs))
    left.update({name: of for name, of in vars(ctx).items() if name != "save_for_backward"})
    marks = [
        getattr(each, "_dynamo_propagated_dynamic_indices", None)
        for each in (*left["saved"], *left["_tensors_no_vc_check"])
    ]
    views = [each._is_view() for each in (*left["saved"], *left["_tensors_no_vc_check"])]
    return f"{' '.join(f'{name}={value_text(of)}' for name, of in left.items())} views={views} marks={marks}"


def ended(outs: Sequence[Any], debug: bool = False, **fields: Any) -> str:
    """What a forward gives of its results, and what it says of them to autograd."""
    marked: list[Any] = []
    ctx = SimpleNamespace(mark_non_differentiable=lambda *tensors: marked.extend(tensors))
    with config.patch(debug_assert=debug):
        given = runtime_wrappers._AutogradForwardEpilogue(metadata(**fields)).finalize(ctx, list(outs))
    places = [next(number for number, of in enumerate(outs) if of is each) for each in marked]
    same = [each is of for each, of in zip(given, outs, strict=False)]
    return f"{value_text(list(given))} same={same} marked={places} fills={ctx._materialize_non_diff_grads}"


@functools.cache
def _operators() -> Any:
    """Operators that give their input, a copy of it, and their input as they say."""
    made = torch.library.Library("suites_aot_calls", "FRAGMENT")
    for name, schema, body in (
        ("same", "(Tensor x) -> Tensor", lambda x: x),
        ("copied", "(Tensor x) -> Tensor", torch.clone),
        ("declared", "(Tensor(a) x) -> Tensor(a)", lambda x: x),
    ):
        made.define(f"{name}{schema}")
        made.impl(name, body, "CompositeExplicitAutograd")
    return made


def custom(name: str) -> Any:
    """One of these operators."""
    _operators()
    return getattr(torch.ops.suites_aot_calls, name).default


NAMES = {
    each.__name__: each
    for each in (output_info, aot_config, sources, wrapper, recorded, handler, merged, before, signature)
} | {each.__name__: each for each in (saved_by, ended, custom)}
