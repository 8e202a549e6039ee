"""What the expressions of ``call_expressions.py`` use: graphs, metadata and tensors by a word or two."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor, fx
from torch._dynamo import compiled_autograd
from torch._functorch._aot_autograd import (
    collect_metadata_analysis,
    functional_utils,
    graph_capture,
    input_output_analysis,
    runtime_wrappers,
    schemas,
    subclass_utils,
    utils,
)
from torch._functorch._aot_autograd.descriptors import PlainAOTInput, PlainAOTOutput, TangentAOTInput
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._pytree import tree_structure

from suites.aot.base import ramp, two_tensors

FAKE = FakeTensorMode(shape_env=ShapeEnv())
aten = torch.ops.aten


class Odd(TwoTensor):
    """A subclass whose second part is none."""

    def __tensor_flatten__(self) -> Any:
        return ["a", "c"], None

    c = 5


def fake(*shape: int) -> Tensor:
    """A fake tensor, whose storage is its own."""
    return FAKE.from_tensor(torch.ones(shape or (2, 3)), static_shapes=True)


def of_two(tensor: Tensor | None = None, kind: type = TwoTensor) -> Any:
    """A subclass of two tensors; as ``Odd`` one that says wrongly what its parts are."""
    part = ramp(2, 3) if tensor is None else tensor
    return kind(part, part.clone())


def written(change: Callable[[Tensor], Any] | None, ask: Callable[[Any], Any], wrap: Any = None) -> Any:
    """What is answered of a functional tensor, or of a subclass of it, after a change."""
    with FunctionalTensorMode():
        value = functional_utils.to_fun(fake() if wrap is None else wrap(fake()))
        if change is not None:
            change(value if wrap is None else value.a)
        return ask(value)


def plain(tensor: Tensor, index: int = 0) -> schemas.PlainTensorMeta:
    """What is known of a tensor that is no subclass."""
    return schemas.PlainTensorMeta(index, memory_format=schemas.MemoryFormatMeta.from_tensor(tensor))


def of_subclass(tensor: Any, count_symints: bool = False, safe: bool = False) -> schemas.SubclassCreationMeta:
    """What is known of a subclass, when it is traced or, ``safe``, when it runs."""
    with FAKE:
        made = TwoTensor(fake(*tensor.shape), fake(*tensor.shape))
    found = subclass_utils.create_subclass_metadata(made, 0, count_symints, True)[0]
    if safe:
        found.make_runtime_safe()
    return found


def metadata(**fields: Any) -> schemas.ViewAndMutationMeta:
    """Metadata of a graph that has nothing but what is said."""
    given = {
        "input_info": [],
        "output_info": [],
        "num_intermediate_bases": 0,
        "keep_input_mutations": True,
        "traced_tangents": [],
        "traced_tangents_descs": [],
        "subclass_inp_meta": [],
        "subclass_fw_graph_out_meta": [],
        "subclass_tangent_meta": [],
    }
    known = {each.name for each in dataclasses.fields(schemas.ViewAndMutationMeta) if each.init}
    made = schemas.ViewAndMutationMeta(
        **{**given, **{name: of for name, of in fields.items() if name in known}}
    )
    for name, of in fields.items():
        setattr(made, name, of)
    return made


def input_info(**fields: Any) -> schemas.InputAliasInfo:
    """What is known of an input: nothing is written, but for what is said."""
    names = [each.name for each in dataclasses.fields(schemas.InputAliasInfo) if each.init]
    return schemas.InputAliasInfo(**{**dict.fromkeys(names, False), **fields})


def saved(tensors: int = 0, unchecked: int | None = 0, opaque: int = 0, symints: int | None = 0) -> list[Any]:
    """Which outputs of a forward with two results are saved, and in which of the four ways."""
    found = metadata(
        num_forward=2,
        num_symints_saved_for_bw=symints,
        num_tensors_saved_with_no_vc_check=unchecked,
        num_opaque_objects_saved_for_bw=opaque,
    )
    outputs = list(range(2 + tensors + (unchecked or 0) + opaque + (symints or 0)))
    names = (
        "tensors_saved_for_backwards_slice",
        "tensors_saved_for_backwards_with_vc_check_slice",
        "tensors_saved_for_backwards_no_vc_check_slice",
        "opaque_objects_saved_for_backwards_slice",
        "symints_saved_for_backwards_slice",
    )
    return [outputs[getattr(found, name)] for name in names]


def graph(build: Callable[[fx.Graph], Any], **metas: dict[str, Any]) -> fx.GraphModule:
    """A graph that ``build`` adds nodes to and gives the outputs of; by name what is known of nodes."""
    made = fx.Graph()
    made.output(build(made))
    for node in made.nodes:
        node.meta.update(metas.get(node.name, {}))
    return fx.GraphModule(torch.nn.Module(), made)


def unary(made: fx.Graph, *targets: Any, start: str = "x") -> list[fx.Node]:
    """An input, and calls each of which has the one before as its argument."""
    nodes = [made.placeholder(start)]
    for target in targets:
        nodes.append(made.call_function(target, (nodes[-1],)))
    return nodes


def traces(descs: Iterable[Any], **metas: dict[str, Any]) -> Any:
    """Where outputs of a graph come from, for tangents."""
    found = metadata(traced_tangents_descs=list(descs))
    made = graph(lambda made: tuple(unary(made, aten.sin.default, aten.cos.default)[1:]), **metas)
    graph_capture._extract_tangent_source_stack_traces(made, found)
    return found.tangent_source_stack_traces


def static_inputs(indices: list[int] | None, compiled: bool) -> Any:
    """Which of a tensor, a parameter and a tensor are said to stay, where compiled autograd runs or not."""

    def program(*inputs: Tensor) -> Any:
        return (inputs[0] * inputs[1] * inputs[2],)

    inputs = (fake(3), torch.nn.Parameter(fake(3)), fake(3))
    collect = collect_metadata_analysis.run_functionalized_fw_and_collect_metadata(
        program,
        flat_args_descs=[PlainAOTInput(number) for number in range(3)],
        keep_input_mutations=True,
        static_input_indices=indices,
    )
    region = mock.patch.object(compiled_autograd, "in_compiled_autograd_region", compiled)
    with region, FAKE, FunctionalTensorMode():
        return collect(*inputs).static_input_indices


def tangent(index: int) -> TangentAOTInput:
    """The tangent of a result."""
    return TangentAOTInput(PlainAOTOutput(index))


NAMES = {
    **{each.__name__.rpartition(".")[2]: each for each in (functional_utils, input_output_analysis)},
    **{each.__name__.rpartition(".")[2]: each for each in (runtime_wrappers, schemas, subclass_utils, utils)},
    "torch": torch,
    "aten": aten,
    "fx": fx,
    "thing": SimpleNamespace,
    **{
        each.__name__: each
        for each in (fake, of_two, written, plain, of_subclass, metadata, input_info, saved)
    },
    **{
        each.__name__: each for each in (traces, static_inputs, tangent, graph, unary, ramp, two_tensors, Odd)
    },
    **{each.__name__: each for each in (tree_structure, PlainAOTOutput, TwoTensor)},
}
