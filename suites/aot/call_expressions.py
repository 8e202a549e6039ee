"""Calls of functions within AOTAutograd, the partitioners and compiled autograd, by what they are about."""

from __future__ import annotations

#: Functional tensors: whether they were written, and how; what is not a functional tensor is refused.
_FUNCTIONAL = (
    "has_data_mutation",
    "are_all_mutations_hidden_from_autograd",
    "are_all_mutations_under_no_grad_or_inference_mode",
    "was_inductor_storage_resized",
)
_CHANGES = (
    "None",
    "lambda x: x.mul_(2)",
    "lambda x: x.detach().mul_(2)",
    "lambda x: torch.no_grad()(x.mul_)(2)",
    "lambda x: x.t_()",
)
FUNCTIONAL = (
    *(f"written({change}, functional_utils.{ask})" for change in _CHANGES for ask in _FUNCTIONAL),
    *(f"written({change}, functional_utils.{ask}, of_two)" for change in _CHANGES[:4] for ask in _FUNCTIONAL),
    *(f"functional_utils.{ask}({value})" for ask in _FUNCTIONAL for value in ("3", "ramp(3)")),
    *(
        f"written(None, lambda x: functional_utils.{ask}(Odd(x, x)))"
        for ask in (*_FUNCTIONAL, "is_fun", "sync_functional_tensor")
    ),
    "functional_utils.is_fun(of_two(kind=Odd))",
    "written(None, lambda x: functional_utils.has_metadata_mutation(Odd(x, x), of_two(fake(), Odd),"
    " check_only_storage_mutation=False))",
    "written(lambda x: x.t_(), lambda x: functional_utils.has_metadata_mutation(x, of_two(fake()),"
    " check_only_storage_mutation=False), of_two)",
    "[functional_utils.is_fun(each) for each in (3, ramp(3), of_two())]",
    "written(None, functional_utils.is_fun)",
    "written(None, functional_utils.is_fun, of_two)",
    "written(None, lambda x: functional_utils.is_fun(TwoTensor(x, fake())))",
    "functional_utils.from_fun(torch._to_functional_tensor(ramp(3)))",
    "written(lambda x: x.mul_(2), lambda x: type(functional_utils.from_fun(x)))",
    *(
        f"written({change}, lambda x: functional_utils.has_metadata_mutation(x, {old},"
        f" check_only_storage_mutation={only}))"
        for change in ("None", "lambda x: x.t_()")
        for old in ("fake()", "ramp(2, 3)")
        for only in (False, True)
    ),
    "functional_utils.has_metadata_mutation(3, ramp(2), check_only_storage_mutation=False)",
    "functional_utils.has_metadata_mutation(3, 3, check_only_storage_mutation=False)",
    "functional_utils.has_metadata_mutation(ramp(2), ramp(2), check_only_storage_mutation=False)",
    *(
        f"[functional_utils.{ask}(x, y) for x in [ramp(3)] for y in (x, x.view(3), ramp(3))]"
        for ask in ("was_tensor_updated", "was_tensor_metadata_updated")
    ),
    *(
        f"[functional_utils.{ask}(x, y) for x in [of_two()] for y in (x, TwoTensor(x.a, x.b),"
        " TwoTensor(x.a, x.b.view(2, 3)), of_two())]"
        for ask in ("was_tensor_updated", "was_tensor_metadata_updated")
    ),
    *(
        f"functional_utils.{ask}(of_two({first}), {second})"
        for ask in ("was_tensor_updated", "was_tensor_metadata_updated")
        for first, second in (("", "ramp(3)"), ("", "of_two(kind=Odd)"), ("kind=Odd", "of_two(kind=Odd)"))
    ),
    "functional_utils.assert_functional_graph(graph(lambda g: unary(g, aten.sin.default)[-1]).graph)",
    "functional_utils.assert_functional_graph(graph(lambda g: unary(g, aten.relu_.default)[-1]).graph)",
    "functional_utils.assert_functional_graph(graph(lambda g: [g.call_function(aten.copy_.default, (x, y))"
    " for x, y in [unary(g, aten.sin.default)]]).graph)",
    "functional_utils.assert_functional_graph(graph(lambda g: [g.call_function(aten.copy_.default, (y, x))"
    " for x, y in [unary(g, aten.sin.default)]]).graph)",
    "functional_utils.propagate_input_mutation_stacktraces(graph(lambda g: ["
    "g.call_function(aten.copy_.default, (y, x)) for x, y in [unary(g, aten.sin.default)]]).graph)",
    *(
        f"functional_utils._check_if_mutation_can_be_in_graph({', '.join(map(str, flags))})"
        for flags in (
            *((keep, True, False, False, False, False, False, grad) for keep in (0, 1) for grad in (0, 1)),
            (1, 0, 1, 0, 0, 0, 0, 0),
            (1, 1, 1, 0, 0, 0, 0, 0),
            (1, 1, 1, 1, 0, 0, 0, 1),
            (1, 1, 0, 0, 1, 0, 0, 1),
            (1, 0, 1, 0, 0, 1, 0, 0),
            (1, 0, 1, 0, 1, 1, 0, 0),
            (1, 0, 0, 0, 0, 0, 1, 0),
            (0, 0, 0, 0, 0, 0, 1, 0),
            (1, 0, 0, 0, 0, 0, 0, 0),
        )
    ),
)
#: Arguments, results and what is saved of them.
VALUES = (
    *(
        f"functional_utils.gen_alias_from_base({base}, {target}, {wants}, replay_views=False).tolist()"
        for base, target, wants in (
            ("ramp(8)[4:]", "ramp(4).view(2, 2)[0]", False),
            ("ramp(4)", "ramp(4).view(2, 2)[1]", False),
            ("ramp(2, 2)", "ramp(4).view(2, 2)[1]", False),
            ("ramp(2, 2).t()", "ramp(2, 2)[1]", False),
            ("ramp(6)", "ramp(2)", False),
            ("torch.complex(ramp(2), ramp(2))", "ramp(4)", False),
            ("ramp(2, 2)", "torch.complex(ramp(1), ramp(1))", False),
            ("ramp(2)", "ramp(2).view(torch.int32)", False),
            ("ramp(2)", "torch.ones(2, dtype=torch.int32)", False),
        )
    ),
    *(
        f"functional_utils.gen_alias_from_base(ramp(4){made}, {target}, {wants}, replay_views=False)"
        ".requires_grad"
        for made in ("", ".requires_grad_()")
        for target in ("ramp(4).view(2, 2)", "ramp(2)")
        for wants in (False, True)
    ),
    "torch.no_grad()(functional_utils.gen_alias_from_base)(ramp(4).requires_grad_(), ramp(2), True,"
    " replay_views=False).requires_grad",
    "[functional_utils.has_same_metadata(ramp(2, 2), each) for each in"
    " (ramp(2, 2), ramp(4), ramp(2, 2).t(), ramp(8)[4:].view(2, 2), ramp(2, 2).to_sparse())]",
    "[functional_utils.has_same_metadata(x, each) for x in [torch.complex(ramp(2), ramp(2))] for each in"
    " (x, x.conj(), x.conj().imag, torch._neg_view(x))]",
    "[functional_utils.MetadataKey.make(ramp(2, 2)) == functional_utils.MetadataKey.make(each) for each in"
    " (ramp(2, 2), ramp(4), ramp(2, 2).t(), ramp(8)[4:].view(2, 2), ramp(2, 2).to_sparse())]",
    *(
        f"static_inputs({indices}, {compiled})"
        for indices in ("None", "[2]", "[0, 2]")
        for compiled in (False, True)
    ),
    *(
        "metadata(input_info=[input_info(), input_info(mutates_data=True), *(input_info(mutates_data=True,"
        " keep_input_mutations=True, mutations_hidden_from_autograd=of) for of in (False, True)),"
        f" input_info(mutates_metadata=True, mutates_data=True)]).{name}"
        for name in (
            *(
                "mutated_inp_runtime_indices",
                "num_mutated_inp_runtime_indices",
                "mutated_graph_handled_indices",
            ),
            *("num_mutated_graph_handled_indices", "mutated_graph_handled_indices_seen_by_autograd"),
        )
    ),
    *(
        f"saved({words})"
        for words in ("3", "3, 2", "3, 2, 1", "3, 2, 1, 2", "3, 0, 1, 2", "3, 2, 0, 2", "0, 2")
    ),
    *("saved(3, None)", "saved(3, 2, 0, None)", "saved(3, 0, 0, 2)", "saved()"),
    "utils.call_func_at_runtime_with_args(lambda *args: sum(args), (1, 2))",
    "utils.call_func_at_runtime_with_args(lambda *args: sum(args), (1, 2), steal_args=True)",
    "utils.call_func_at_runtime_with_args(utils.make_boxed_func(lambda *args: list(args)), [1, 2], True)",
    *(
        "torch.autocast('cpu')(utils.call_func_at_runtime_with_args)("
        f"utils.make_boxed_func(lambda: torch.is_autocast_enabled('cpu')), [], disable_amp={off})"
        for off in (False, True)
    ),
    *(
        f"(lambda thunk: (thunk.set(tree_structure({tree})), thunk.is_simple, thunk.is_really_simple,"
        f" thunk.unflatten([1, 2, 3])))(utils.PytreeThunk())"
        for tree in ("0", "[0, 0]", "(0, 0, 0)", "(0, [0, 0])", "{'a': 0, 'b': [0, 0]}")
    ),
    "utils.PytreeThunk().set(None)",
    "utils.PytreeThunk().unflatten([1])",
    "(lambda thunk: [thunk.set(tree_structure(tree)) for tree in ([0], [0], (0,))])(utils.PytreeThunk())",
    *(
        f"utils.call_and_expect_output_descs(lambda x: {given}, (ramp(3),))"
        for given in (
            "((x,), (PlainAOTOutput(0),))",
            "(x, (PlainAOTOutput(0),))",
            "[x, PlainAOTOutput(0)]",
            "(x,)",
            "(PlainAOTOutput(0), PlainAOTOutput(0))",
            "((x, 3, 'a'), (PlainAOTOutput(0), PlainAOTOutput(1), 5))",
            "((x, 3), (PlainAOTOutput(0), 5))",
            "((x,), (5,))",
        )
    ),
    "utils.get_default_generator(torch.device('meta'))",
    "utils.get_device_rng_state(torch.device('cpu', 0)).dtype",
    "[utils.supports_graphsafe_rng(torch.device(each)) for each in ('cpu', 'cuda:0', 'meta')]",
    "[utils.saved_tensors_hooks_are_inlineable(each) for g in [graph(unary)] for each in"
    " (None, (), (g, g), (g, len), (len, g), (len, len))]",
    "schemas.InputAliasInfo(**{**vars(input_info()), 'mutates_storage_metadata': True})",
    *(
        f"input_info({flags}).mutation_type.name"
        for flags in (
            *("", "mutates_data=True", "mutates_metadata=True", "mutation_inductor_storage_resize=True"),
            *(f"keep_input_mutations=True, mutates_{what}=True" for what in ("data", "metadata")),
            "keep_input_mutations=True, mutates_data=True, requires_grad=True",
            "keep_input_mutations=True, mutates_data=True, requires_grad=True,"
            " mutations_hidden_from_autograd=True",
        )
    ),
    "input_output_analysis._graph_output_names(graph(lambda g: [*unary(g, aten.sin.default), 3]))",
    "input_output_analysis._graph_output_names(thing(graph=thing(nodes=unary(fx.Graph()))))",
    *(
        f"traces([{descs}], sin_default={{'stack_trace': 'of sin'}})"
        for descs in (
            "",
            "tangent(0)",
            "tangent(1)",
            "tangent(1), tangent(0)",
            "tangent(7), tangent(0)",
            "tangent(2)",
            "5",
        )
    ),
)
#: Subclasses, and the tensors within.
SUBCLASSES = (
    "subclass_utils.runtime_unwrap_tensor_subclasses([of_two(), 3, ramp(2)], append_symints=False)",
    "subclass_utils.runtime_unwrap_tensor_subclasses([of_two()], append_symints=True)",
    "subclass_utils.runtime_unwrap_tensor_subclasses([of_two(), 3], append_symints=True,"
    " subclass_metas=[of_subclass(ramp(2, 3), True), None])",
    "subclass_utils.runtime_unwrap_tensor_subclasses([of_two()], append_symints=True,"
    " subclass_metas=[plain(ramp(3))])",
    "subclass_utils.runtime_unwrap_tensor_subclasses([of_two(kind=Odd)], append_symints=False,"
    " subclass_metas=[of_subclass(ramp(2, 3))])",
    "subclass_utils.runtime_unwrap_tensor_subclasses([two_tensors(ramp(3))], append_symints=True,"
    " subclass_metas=[of_subclass(ramp(2, 3), True)])",
    "subclass_utils.runtime_unwrap_tensor_subclasses([TwoTensor(of_two(), of_two())], append_symints=False,"
    " subclass_metas=[of_subclass(ramp(2, 3))])",
    *(
        f"subclass_utils.wrap_tensor_subclasses({given}, subclass_metas=[{metas}]{more})"
        for given, metas, more in (
            ("[ramp(2), 5]", "plain(ramp(2), 1), plain(ramp(2), 0)", ""),
            ("[ramp(2, 3)] * 2", "of_subclass(ramp(2, 3))", ""),
            ("[ramp(2, 3)] * 2", "of_subclass(ramp(2, 3), True)", ""),
            ("[ramp(2, 3)] * 3", "of_subclass(ramp(2, 3))", ""),
            ("[ramp(2, 3)] * 2", "None", ""),
            ("[ramp(2, 3)] * 3", "of_subclass(ramp(2, 3))", ", num_fw_outs_saved_for_bw=1"),
            ("(ramp(2, 3),) * 3", "of_subclass(ramp(2, 3))", ", num_fw_outs_saved_for_bw=1"),
            ("[ramp(2, 3)] * 3", "of_subclass(ramp(2, 3))", ", num_fw_outs_saved_for_bw=2"),
            (
                "[ramp(2, 3)] * 2",
                "of_subclass(ramp(2, 3))",
                ", make_subclass_override=lambda *a: list(a[1:])",
            ),
            (
                "[ramp(2, 3)] * 2",
                "of_subclass(ramp(2, 3))",
                ", is_runtime=True, make_subclass_override=lambda *a: a[1]",
            ),
        )
    ),
    *(
        f"subclass_utils.wrap_tensor_subclasses_maybe_joint({given}, is_joint_structure={joint},"
        " meta=metadata(subclass_inp_meta=[of_subclass(ramp(2, 3), True)],"
        " subclass_tangent_meta=[plain(ramp(2))]))"
        for given, joint in (
            ("([ramp(2, 3)] * 2, [ramp(2)])", True),
            ("[[ramp(2, 3)] * 2, [ramp(2)]]", True),
            ("([ramp(2, 3)] * 2, [ramp(2)], [])", True),
            ("([ramp(2, 3)] * 2, ramp(2))", True),
            ("(ramp(2, 3), [ramp(2)])", True),
            ("7", True),
            ("[ramp(2, 3)] * 2", False),
        )
    ),
    *(
        "subclass_utils.compute_inner_mutated_inp_indices_from_subclass_meta("
        f"metadata(input_info=[{outer}], subclass_inp_meta=[{metas}]), metadata(input_info=[{inner}]))"
        for outer, metas, inner in (
            ("input_info()", "", "input_info(mutates_data=True)"),
            ("input_info(mutates_data=True)", "plain(ramp(2))", "input_info(mutates_data=True)"),
            ("input_info(mutates_data=True)", "plain(ramp(2))", "input_info()"),
            ("input_info()", "plain(ramp(2)), plain(ramp(2))", "input_info()"),
            ("input_info()", "plain(ramp(2))", ""),
            ("input_info()", "plain(ramp(2))", "input_info(), input_info()"),
            ("input_info(mutates_data=True)", "of_subclass(ramp(2, 3))", "input_info(), input_info()"),
            ("input_info(mutates_data=True)", "of_subclass(ramp(2, 3))", "input_info()"),
            (
                "input_info(), input_info(mutates_data=True)",
                "plain(ramp(2)), of_subclass(ramp(2, 3))",
                "input_info(), input_info(), input_info()",
            ),
        )
    ),
    *(
        f"runtime_wrappers.coerce_to_expected_memory_format({given}, schemas.MemoryFormatMeta({meta}))"
        for given in ("ramp(2, 3)", "ramp(3, 2).t()", "ramp(1, 2, 3, 4)")
        for meta in (
            "size=(2, 3), stride=(1, 2)",
            "memory_format=torch.contiguous_format",
            "size=(2, 3)",
            "stride=(3, 1)",
        )
    ),
    "runtime_wrappers.coerce_to_expected_memory_format(ramp(1, 2, 3, 4),"
    " schemas.MemoryFormatMeta(memory_format=torch.channels_last))",
    *(
        f"runtime_wrappers.AOTDispatchAutograd.process_runtime_tangent({given}, {meta}{more})"
        for given, meta, more in (
            ("3", "plain(ramp(2))", ""),
            ("ramp(3, 2).t()", "plain(ramp(2, 3))", ""),
            ("fake(2, 3)", "plain(ramp(2, 3))", ""),
            ("fake(2, 3)", "schemas.PlainTensorMeta(0)", ""),
            ("ramp(2)", "schemas.PlainTensorMeta(0)", ""),
            ("of_two()", "plain(ramp(2, 3))", ""),
            ("of_two()", "plain(ramp(2, 3))", ", 3, 'tangent', '4/5', 'a line'"),
            ("ramp(2, 3)", "of_subclass(ramp(2, 3), safe=True)", ", 2"),
            ("two_tensors(ramp(3, 2).t())", "of_subclass(ramp(2, 3), safe=True)", ""),
            ("TwoTensor(of_two(), of_two())", "of_subclass(ramp(2, 3), safe=True)", ""),
        )
    ),
    "runtime_wrappers._unwrap_tensoralias(runtime_wrappers.TensorAlias(ramp(3)))",
    "runtime_wrappers._unwrap_tensoralias(ramp(3))",
)
