"""Calls of what is done to inputs before graphs and to results behind them, and of what is recorded."""

from __future__ import annotations

from suites.aot.wrapper_source_expressions import GRAD, INPUTS, KINDS, OUTPUTS, WRITTEN

_VIEWS = "[x[:4], x[2:6], x[6:]]"
RECORDS = (
    *(
        f"handler('{each}', {joint}{base}{more})"
        for each in KINDS
        for joint in (False, True)
        for base, more in (("", ", requires_grad=True"), (", 0", ""))
        if "alias_of_in" in each or not base
    ),
    *(
        f"(lambda x: merged({inputs}, {written}{more}))(ramp(8))"
        for inputs, written, more in (
            (_VIEWS, "[]", ""),
            (_VIEWS, "[2]", ""),
            (_VIEWS, "[0]", ""),
            ("[ramp(2), x[:4], 3, x[2:6], ramp(3)]", "[3]", ""),
            ("[x, x[2:]]", "[1]", ""),
            ("[x[:4], ramp(2), x[4:]]", "[0]", ""),
            ("[x, x.detach()]", "[1]", ""),
            ("[x, x.detach()]", "[1]", ", True"),
            ("[x.detach()[:4], x.detach()[2:]]", "[1]", ", True"),
            ("[x, x[:4], x.detach()]", "[1]", ", True"),
            ("[x[:4], x.view(torch.int32)[2:]]", "[1]", ""),
            ("[x[:4], x.view(torch.int32)[2:]]", "[1]", ", True"),
            ("[x.view(torch.int32)[2:], x.view(torch.int32)]", "[1]", ", True"),
            (
                "[x.detach(), x.detach()]",
                "[0]",
                ", aot_autograd_arg_pos_to_source=[thing(local_name='a', name='b')]",
            ),
            ("[x.detach(), x.detach()]", "[0]", ", aot_autograd_arg_pos_to_source=[None, thing(name='b')]"),
            ("[x[:4], 3, 3, x[2:6], (t := ramp(2)), t]", "[0]", ""),
            ("[x[:4], x[2:6], (y := ramp(6))[:4], y[3:], 5]", "[0, 3]", ""),
        )
    ),
    "runtime_wrappers.merge_view_inputs(aot_config(), [ramp(2)], None, [], is_inference=True)",
    "runtime_wrappers.merge_view_inputs(aot_config(), [torch.eye(2).to_sparse()], None, [input_info()],"
    " is_inference=True)[1:]",
    *(
        f"(lambda x: before(runtime_wrappers.AOTDedupeWrapper(), {inputs}, [{infos}]{more}))(ramp(4))"
        for inputs, infos, more in (
            ("[x, ramp(2), x]", "input_info(), input_info(), input_info()", ""),
            ("[x, 3, x.requires_grad_()]", "input_info(), input_info(), input_info()", ""),
            ("[x, 3, x, ramp(2)]", "*[input_info(mutates_data=True)] * 4", ""),
            ("[x, ramp(2), x]", "*[input_info(mutates_metadata=True)] * 3", ""),
            ("[x, 3, x]", "*[input_info(mutates_data=True)] * 3", ", is_export=True"),
            ("[(y := of_two()), y]", "*[input_info(mutates_data=True)] * 2", ""),
            (
                "[3, x, ramp(2), x, ramp(3)]",
                "*[input_info(mutates_data=True, is_leaf=True)] * 5",
                ", output_info=[output_info('is_input', base_idx=3), output_info('is_input', base_idx=4)]",
            ),
        )
    ),
    *(
        f"(lambda x: before(runtime_wrappers.AOTSyntheticBaseWrapper({joint}), {inputs},"
        f" [{infos}]{more}))(ramp(8))"
        for joint, inputs, infos, more in (
            ("False", "[x[:4], x[2:6]]", "input_info(), input_info()", ""),
            ("False", "[x[:4], x[2:6]]", "input_info(mutates_data=True), input_info()", ""),
            ("True", "[x[:4], 3, x.view(2, 4)]", "*[input_info(mutates_data=True)] * 3", ""),
            ("False", "[x[:4], x[2:6]]", "*[input_info(mutates_data=True)] * 2", ", is_export=True"),
            ("False", "[(y := of_two()), y]", "*[input_info(mutates_data=True)] * 2", ""),
            (
                "False",
                "[3, x[:4], ramp(2), x[2:6].view(2, 2)]",
                "input_info(), input_info(mutates_data=True), input_info(),"
                " input_info(mutates_metadata=True)",
                ", output_info=[output_info('is_input', base_idx=2), output_info('is_input', base_idx=3)]",
            ),
            (
                "False",
                "[x[:4], ramp(6)[1:3], x[2:6]]",
                "*[input_info(mutates_data=True)] * 3",
                ", output_info=[output_info('is_input', base_idx=1), output_info('is_input', base_idx=0)]",
            ),
            (
                "False",
                "[x, 7, x[2:6]]",
                "input_info(mutates_data=True, is_leaf=True), input_info(), input_info(requires_grad=True)",
                "",
            ),
            (
                "False",
                "[x, x[2:6], ramp(3)]",
                "input_info(mutates_data=True, mutations_hidden_from_autograd=True), input_info("
                "mutates_data=True, requires_grad=True), input_info(mutates_data=True, requires_grad=True)",
                ", output_info=[output_info('is_input', base_idx=0), output_info('alias_of_input',"
                " base_idx=1)]",
            ),
            (
                "False",
                "[ramp(3), x.view(2, 4), x.view(2, 4)]",
                "input_info(mutates_metadata=True), *[input_info(mutates_data=True, mutates_metadata=True,"
                " mutations_under_no_grad_or_inference_mode=True)] * 2",
                ", output_info=[output_info(), output_info('alias_of_intermediate', base_idx=0)]",
            ),
        )
    ),
    *(
        "recorded(input_output_analysis.remove_dupe_metadata(metadata(input_info="
        f"{INPUTS}, output_info=[output_info('is_input', base_idx=3), output_info(dynamic_dims={{1}},"
        f" {GRAD})],"
        " traced_tangents=[ramp(2), ramp(3)], traced_tangents_descs=[tangent(2), tangent(1)],"
        f" subclass_tangent_meta=[plain(ramp(2)), plain(ramp(3))], num_intermediate_bases=1), {mask},"
        f" {places}))"
        for mask, places in (
            ("[True, True, True, True]", "[0, 1, 2, 3]"),
            ("[True, True, False, True]", "[0, 1, 1, 2]"),
            ("[True, False, True, False]", "[0, 0, 1, 1]"),
        )
    ),
    f"recorded(metadata(input_info={INPUTS}, output_info=[{OUTPUTS}], traced_tangents=[fake(2), ramp(2),"
    " 3]))",
    "recorded(metadata(output_info=["
    + ", ".join(f"output_info('{each}', base_idx=0)" for each in KINDS)
    + ", output_info(dynamic_dims={0})], num_intermediate_bases=2))",
    "input_output_analysis.remove_dupe_metadata(metadata(input_info=[input_info()],"
    " subclass_tangent_meta=None), [True], [0])",
    "input_output_analysis.create_synthetic_base_metadata(metadata(subclass_tangent_meta=None), [], [],"
    " [], [])",
    *(
        f"metadata() == metadata({fields})"
        for fields in (
            *("", "num_intermediate_bases=1", "keep_input_mutations=False", "is_rng_op_functionalized=True"),
            *("num_outputs_rng_offset=1", "num_backward_tokens=1", "input_info=[input_info()]"),
            *("output_info=[output_info()]", "traced_tangents=[fake(2)]", "deterministic=True"),
        )
    ),
    *(
        f"metadata(traced_tangents=[fake(2), fake(3)]) == metadata(traced_tangents=[{tangents}])"
        for tangents in (
            *("fake(2), fake(3)", "fake(3), fake(2)", "fake(2)", "fake(2), fake(3).double()"),
            "fake(2), fake(3), fake(4)",
        )
    ),
    "metadata() == 3",
    "configured({}, lambda: recorded(metadata(output_info=[output_info()])), functionalize_rng_ops=True)",
    "(lambda found: (found.make_runtime_safe(), recorded(found)))(metadata(traced_tangents=[of_two(),"
    " ramp(2)],"
    " subclass_inp_meta=[plain(ramp(2)), of_subclass(ramp(2, 3))], subclass_fw_graph_out_meta=["
    " of_subclass(ramp(2, 3)), plain(ramp(2))], subclass_tangent_meta=[of_subclass(ramp(2, 3))]))[1]",
    "metadata(traced_tangent_metas=[]).make_runtime_safe()",
    *(
        f"vars(aot_config({fields}).to_cacheable())"
        for fields in (
            "",
            "is_export=True, pre_dispatch=True, num_params_buffers=3, no_tangents=True,"
            " static_input_indices=[2]",
            "aot_id=7, dynamic_shapes=True, enable_log=False, precompile_backend_id='a',"
            " keep_inference_input_mutations=True, aot_autograd_arg_pos_to_source=[]",
            "pre_dispatch=True",
        )
    ),
)
FIRST = (
    *(
        f"signature({given})"
        for given in (
            "'a b c', 'a y', [True], [True, True]",
            "'a b c d', 'x y', [True, False], [True, True], buffers=1",
            "'t a b', 't y', [True], [False], tokens={'t': 1}",
            f"'a b', 'a y', [], [True, True], input_info=[input_info(), {WRITTEN.format('')}]",
            f"'a b', 'b x y', [False], [True], input_info=[{WRITTEN.format('')}, {WRITTEN.format('')}]",
            f"'t a b c', 't a b c y', [False, False], [True], buffers=1, tokens={{'t': 1}},"
            f" input_info=[{WRITTEN.format('')}, {WRITTEN.format('')}, {WRITTEN.format('')}]",
            f"'a b', 'y', [True], [True], input_info=[{WRITTEN.format('')}]",
            *(
                f"'a b c', '{outs}', [True, False], {users}, trace_joint=True, buffers=1, {more}"
                for outs, users, more in (
                    ("x y z", "[True]", "num_user_fw_outs=1, loss_index=0"),
                    ("x v y z", "[True]", "num_user_fw_outs=2, loss_index=1"),
                    ("x y", "[False]", "num_user_fw_outs=1, loss_index=0"),
                    ("x y z", "[False]", "num_user_fw_outs=1, loss_index=0"),
                    ("x y z", "[True]", "num_user_fw_outs=1"),
                    ("x y z", "[True]", "loss_index=0"),
                    (
                        "b x y z",
                        "[True]",
                        f"num_user_fw_outs=1, loss_index=1, input_info=[input_info(), {WRITTEN.format('')}]",
                    ),
                    (
                        "b x y z",
                        "[True]",
                        f"num_user_fw_outs=1, loss_index=1, input_info=[{WRITTEN.format('')}]",
                    ),
                )
            ),
        )
    ),
    *(
        f"saved_by({outs}, num_symints_saved_for_bw={symints},"
        f" num_tensors_saved_with_no_vc_check={unchecked}{more})"
        for outs, symints, unchecked, more in (
            ("[ramp(2), ramp(3)]", 0, 0, ""),
            ("[ramp(2), ramp(6)[:3], ramp(8)[:4], 5, 2.5]", 2, 1, ""),
            ("[ramp(2), ramp(3)]", 0, 1, ", dynamic={0: {1}, 1: {0, 2}}"),
            ("[ramp(2), ramp(3), 7]", 1, 0, ", output_info=[output_info()]"),
            ("[ramp(2), 3]", 0, 0, ""),
            ("[ramp(2), 3]", 0, 1, ""),
            ("[ramp(2), ramp(3)]", 1, 0, ""),
            ("[ramp(2), 3, 4]", 1, 0, ", num_opaque_objects_saved_for_bw=1"),
        )
    ),
    *(
        f"ended({outs}{more})"
        for outs, more in (
            ("[]", ""),
            ("[ramp(2), ramp(3), ramp(4)]", ", output_info=[output_info(), output_info(requires_grad=True)]"),
            ("[ramp(2), ramp(3), 4]", f", True, input_info={INPUTS}, output_info=[]"),
            *(
                (
                    "[ramp(2), ramp(3), ramp(4), ramp(5)]",
                    f", {debug}, input_info=[input_info(mutates_metadata=True)], num_intermediate_bases=1,"
                    " output_info=[output_info('unsafe_view_alias'), output_info('is_input', base_idx=0)]",
                )
                for debug in (False, True)
            ),
            (
                "[ramp(2), runtime_wrappers.TensorAlias(ramp(3))]",
                ", True, num_intermediate_bases=1, output_info=[output_info('alias_of_intermediate',"
                " base_idx=0)]",
            ),
            (
                "[ramp(2), ramp(3)]",
                ", True, input_info=[input_info(mutates_data=True, keep_input_mutations=True), input_info("
                "mutates_data=True, requires_grad=True)], output_info=[output_info()]",
            ),
        )
    ),
    *(
        f"faked({inputs}{more})"
        for inputs, more in (
            ("[ramp(5, 7), 5, 'a', None]", ""),
            ("[ramp(5, 7), 5, 6]", ", True"),
            ("[ramp(5, 7), ramp(5, 7), ramp(7)]", ", num_params_buffers=1"),
            ("[ramp(5, 7), 5]", ", is_export=True, num_params_buffers=1"),
            ("[ramp(5, 7), fake(3, 4)]", ""),
            ("[two_tensors(ramp(5, 7)), ramp(1, 1)]", ", num_params_buffers=2"),
            ("[-3]", ""),
        )
    ),
    *(
        f"assigned(lambda layer: {change})"
        for change in (
            "None",
            "setattr(layer, 'one', ramp(3))",
            "[setattr(layer, 'one', ramp(3)), setattr(layer.extra, 'made', ramp(2))]",
            "setattr(layer, 'other', ramp(3))",
            "setattr(layer, 'one', None)",
            "setattr(layer.extra, 'number', 5)",
            "layer.items.__setitem__(0, ramp(2))",
            "layer.items.append(ramp(2))",
            "layer.items.pop(0)",
            "layer.items[1].update(a=ramp(2))",
            "layer.items[1].update(b=4)",
        )
    ),
    *(
        "runtime_wrappers._AnalyzeCustomOpInputOutputMode().__torch_dispatch__("
        f"{operator}, (), ({given},)) is not NotImplemented"
        for operator, given in (
            ("aten.sin.default", "ramp(2)"),
            ("aten.sin.default", "torch.nn.Parameter(ramp(2))"),
            ("aten.sin.default", "of_two()"),
            ("aten.sin.default", "torch.nn.Parameter(of_two())"),
            ("aten.alias.default", "ramp(2)"),
            *((f"custom('{each}')", "ramp(2)") for each in ("copied", "declared")),
        )
    ),
    *(  # by itself this asks whether it runs in CI
        "configured({}, lambda: runtime_wrappers._AnalyzeCustomOpInputOutputMode().__torch_dispatch__("
        f"custom('same'), (), (ramp(2),)) is not NotImplemented, error_on_custom_op_aliasing={raises})"
        for raises in (False, True)
    ),
    *(
        "configured({}, lambda: (lambda first: [type(first()).__name__ for _ in range(3)])("
        f"runtime_wrappers._FirstInvocationContext()), check_custom_op_aliasing={checks})"
        for checks in (True, False)
    ),
)
