"""Calls of compiled autograd with captured graphs written by hand, of records, and of passes over graphs."""

from __future__ import annotations

_START = "a get inputs 0; b get inputs 1; c cos a; d sin b; "
_ORDERS = (
    *(
        ("reorder_accumulate_grad_nodes", _START + calls)
        for calls in (
            "e exp c; g grad a - c; h exp e",
            "e exp c; g grad a - a; h exp e",
            "g grad a - c; e exp c",
            "m max c; e exp m; k get m 0; g grad b - k; h exp e",
            "m max c; k get m 0; e exp d; l get m 1; g grad b d k; n grad a - l",
            "e exp c; g grad a e -; h exp e",
            "e exp c; f grad b - d; g grad a - c",
        )
    ),
    *(
        ("delay_unpack_hook_nodes", _START + calls)
        for calls in (
            "u unpack hooks:2 3; e exp c; f exp u; g sin u",
            "u other hooks:2 3; e exp c; f exp u; g sin u",
            "u unpack hooks:2 3; v unpack hooks:3 3; e exp d; f add v u",
        )
    ),
    *(
        ("reorder_tensor_pre_hook_nodes", _START + calls)
        for calls in (
            "e exp d; h tensor hooks:3 c; f exp h",
            "h tensor hooks:3 d; f exp h",
            "e exp d; h tensor hooks:3 a; f exp h",
            "e exp d; h pre hooks:3 c; f exp h",
            "e exp d; h tensor hooks:3 c; k tensor hooks:4 h; f exp k",
            "e exp d; h tensor hooks:3 c; k tensor hooks:4 d; f add h k",
        )
    ),
    *(
        ("reorder_pre_hook_nodes_to_schedule_asap", _START + calls)
        for calls in (
            "e exp d; h pre hooks:3 c,d; f get h 0",
            "e exp d; h pre hooks:3 c,a; f get h 0",
            "e exp d; h tensor hooks:3 c,d; f get h 0",
            "m max c; e exp d; k get m 0; l get m 1; h pre hooks:3 k,l; f get h 0",
            "m max c; e exp d; k get m 0; h pre hooks:3 k,c; f get h 0",
            "h pre hooks:3 a,b; e exp d; f get h 0",
            "e exp d; h pre hooks:3 c,c; f get h 0; i pre hooks:4 d,d",
            "h pre hooks:3 d,d; e exp c; f pre hook_3 e,e; g get f 0",
        )
    ),
    *(
        ("reorder_pre_hook_nodes_to_mimic_eager", _START + calls)
        for calls in (
            "h pre hooks:3 c,d; e exp d; f get h 0; k exp e; l exp f",
            "h pre hooks:3 c,d; e exp d; f get h 0; k get h 1; l exp e; n add f k",
            "h pre hooks:3 c,d; f get h 0; l exp f",
            "h pre hooks:3 c,d; e exp d",
            "h pre hooks:3 c,d; e exp h",
            "h tensor hooks:3 c,d; e exp d; f get h 0; k exp e; l exp f",
            "h pre hooks:3 c,d; i pre hooks:4 c,d; e exp d; f get h 0; g get i 0; k exp g; l exp f",
        )
    ),
    *(
        ("reorder_post_acc_grad_hook_nodes", _START + calls)
        for calls in (
            "g grad a - c; e exp d; h acc hooks:3 a",
            "g grad a - c; n grad b - d; e exp d; h acc hooks:3 b; i acc hooks:4 a; j acc hooks:5 a",
            "g grad a - c; e exp d; h acc hooks:3 b",
            "g grad a - c; e exp d; h post hooks:3 a",
        )
    ),
    *(
        ("reorder_post_hook_nodes", _START + calls)
        for calls in (
            "e exp c; f exp e; h post hooks:3 [] c,d",
            "e exp c; f exp e; h post hooks:3 f,e c,d",
            "e exp c; f exp d; h post hooks:3 [] a,b",
            "e exp c; f exp e; h post hooks:3 [] f,d",
            "e exp c; g grad a - c; f exp e; h post hooks:3 [] c,c",
            "e exp c; g grad a - c; k acc hooks:4 a; f exp e; h post hooks:3 [] c,c",
            "e exp c; g grad a - c; k pre hooks:4 a,b; f exp e; h post hooks:3 [] c,c",
            "e exp c; f exp e; h post hooks:3 [] c,d; i post hooks:4 [] c,d",
            "e exp c; f exp e; h pre hooks:3 [] c,d",
            "e exp d; h post hooks:3 [] b,b; f exp e",
        )
    ),
)
_ADDED = "lambda found, tensors, symbols, numbers: [tensors[0] * 2]"
CAPTURES = (
    *(f"order('{method}', '{calls}')" for method, calls in _ORDERS),
    *(
        f"captured({outputs}{more})"
        for outputs, more in (
            (_ADDED, ""),
            (_ADDED, ", (5, 3, ramp(2, 3)), (4, 5), (2, 2.5)"),
            (
                "lambda found, tensors, symbols, numbers: [tensors[1] + symbols[1], None]",
                ", (5, 3), (4, 5, 6)",
            ),
            ("lambda found, tensors, symbols, numbers: [tensors[1] * symbols[0]]", ", (5, 3), (0, -2, 1)"),
            ("lambda found, tensors, symbols, numbers: [tensors[0].expand(symbols[0], 5)]", ", (5,), (4, 7)"),
            ("lambda found, tensors, symbols, numbers: [tensors[0] * numbers[1]]", ", (5,), (), (2, 1.5)"),
            (
                "lambda found, tensors, symbols, numbers: [tensors[0] * numbers[0] + numbers[1]]",
                ", (5,), (), (3, 2)",
            ),
            (_ADDED, ", (5,), (), ('a',)"),
            (_ADDED, ", (5,), (), (), True"),
            (_ADDED, ", (5,), (), (), True, [torch.tensor([NAN])]"),
            (_ADDED, ", (5,), (), (), False, [torch.tensor([NAN])]"),
            ("lambda found, tensors, symbols, numbers: tensors[:1]", ", (5, 3)"),
            ("lambda found, tensors, symbols, numbers: []", ", (5, 3)"),
            (
                "lambda found, tensors, symbols, numbers: [found.accumulate(*tensors)]",
                ", (5, 5)",
            ),
            (
                "lambda found, tensors, symbols, numbers: [found.accumulate_grad(tensors[0], tensors[1],"
                " False)]"
                " and []",
                ", (5, 5)",
            ),
            *(
                (f"lambda found, tensors, symbols, numbers: {call}", ", (5, 5)")
                for call in (
                    "[found.accumulate_grad(tensors[0], None, tensors[1], False)]",
                    "[found.accumulate_grad(tensors[0], tensors[1], tensors[1], True)]",
                    "[found.accumulate_grad(tensors[0], None, tensors[1], False)] and [tensors[0].grad]",
                )
            ),
            (
                "lambda found, tensors, symbols, numbers: found.validate_outputs(None, [tensors[0]],"
                " ([], False),"
                " [None])",
                ", (5, 3)",
            ),
            *(
                (f"lambda found, tensors, symbols, numbers: {call}", ", (5, 3), (4,), (2,)")
                for call in (
                    "found.tensor_pre_hook(tensors, 4, 1)",
                    "found.pre_hook(tensors, 4)",
                    "found.post_hook(tensors[:1], tensors[1:], 4)",
                    "found.post_acc_grad_hook(tensors[0], 4)",
                    "found.cpp_tensor_pre_hook(tensors, 4, 1)",
                    "[found.unpack_hook(4, 5)]",
                    "found.proxy_call(len, (tensors, symbols, numbers, 'a'), [1, 2])",
                    "found.call_copy_slices_prologue([tensors[0]], symbols, [1], 0, [2], [1], symbols[0])",
                    "found.call_copy_slices_epilogue([True, False], tensors[0], [None], tensors[1])",
                    "[found.allocate_dummy()] and [found.allocate_dummy_like(tensors[1])] and []",
                )
            ),
        )
    ),
    "compiled_autograd.AutogradCompilerInstance.get_all_nodes([1, None, given(), 'a', sine()])",
    "[compiled_autograd.AutogradCompilerInstance.is_placeholder(each) for each in"
    " (given(), sine(), calls(operator.getitem, given(), 0), calls(operator.getitem, sine(), 0),"
    " calls(len, given()))]",
)
_JAGGED = "torch.nested.nested_tensor([ramp(2), ramp(3)], layout=torch.jagged).shape"
#: What records say of sizes and views, in a trace and where the graph runs.
RECORDED = (
    f"subclass_utils.enumerate_filter_symints({_JAGGED})",
    "(lambda it, sizes: (setattr(it, 'outer_size', sizes), it.make_runtime_safe(), it.outer_size)[2])("
    f"of_subclass(ramp(2, 3)), {_JAGGED})",
    "(lambda of: [of.make_runtime_safe(), [each.view_meta_sequence for each in of.output_info]])(metadata("
    "output_info=[output_info(), *(output_info(view_meta_sequence=thing(sequence=[thing(has_symbolic_inputs"
    "=of)])) for of in (True, False))]))",
    *(
        f"[metadata(num_forward=1, num_tensors_saved_with_no_vc_check={unchecked},"
        f" num_symints_saved_for_bw={symints}).tensors_saved_for_backwards_no_vc_check_slice]"
        for unchecked, symints in ((2, None), (None, 2), (2, 0), (2, 3), (0, 3))
    ),
)
_B, _F = "'is_backward'", "'is_forward'"
#: Passes over graphs, and what is made of a module around them.
PASSES = (
    *(
        f"synchronized({nodes})"
        for nodes in (
            f"({_B}, 3), ({_B}, 4), ({_B}, 5)",
            f"({_B}, 3), ({_F}, 4), ({_B}, 5), ({_B}, 6)",
            f"({_F}, 3), ({_F}, 4), ({_B}, 5), ({_B}, 5)",
            f"({_B}, None), ({_B}, 4), ({_B}, None), ('must_be_in_backward', 6)",
            f"({_B}, 3), ({_B}, 4), ({_B}, 5), device='cpu'",
        )
    ),
    "without_tokens()",
    *(f"compiled_module({given})" for given in ("'early'", "'late'", "'default'", "serializes=True")),
    *(
        f"[torch._functorch._aot_autograd.subclass_codegen._concrete_value({value})]"
        for value in ("3", "None", f"{_JAGGED}[1]")
    ),
    "undescribed(2)",
    *(
        f"sources_of_inputs({given})"
        for given in ("'w', 'x', 'y'", "'w', 'x', None", "'w', 'w'", "'v w', 'x'")
    ),
    "[input_output_analysis.create_synthetic_base_metadata(metadata(input_info=[input_info()], output_info=["
    "output_info('is_input', base_idx=0)]), [info], [outer], [ramp(4)], [tangent(0)])[0].output_info[0]"
    ".output_type.name for info in ((0, None), 0) for outer in (ramp(4), ramp(2), ramp(8)[:4])]",
    *(
        f"with_effects(Checking.apply, ramp(3).requires_grad_(){more})"
        for more in ("", ", unlift_effect_tokens=True")
    ),
    "torch._functorch._aot_autograd.collect_metadata_analysis.coerce_tangent_and_suggest_memory_format("
    "TwoTensor(ramp(2, 3), ramp(2, 3)))",
    "(lambda of: [of[0].a.stride(), of[0].b.stride(), *map(str, of[1]), of[2]])(torch._functorch."
    "_aot_autograd.collect_metadata_analysis.coerce_tangent_and_suggest_memory_format("
    "TwoTensor(ramp(4, 6)[:, ::2], ramp(4, 6)[:, ::2])))",
    *(
        f"[functional_without_fsdp(graph(lambda g: unary(g, {operators})))]"
        for operators in ("aten.sin.default", "aten.sin_.default")
    ),
    "restrided((3, 1), None, (1, 2), (3, 1))",
    *(
        f"results_of_forward({fields})"
        for fields in (
            "output_info=[output_info()], num_intermediate_bases=3",
            "output_info=[output_info()], num_outputs_rng_offset=1, tokens={'an effect': None}",
        )
    ),
    *(
        "graph_compile._aot_stage2b_compile_forward_or_inference(graph(lambda g: unary(g, aten.sin.default)),"
        f" [ramp(2)], None, metadata(), aot_config(), lambda made, given: {made},"
        " is_inference=True)[1]([ramp(2)])"
        for made in ("made.forward", "torch._functorch.aot_autograd.make_boxed_func(made.forward)")
    ),
    "(lambda info: [autograd_cache.AOTAutogradCache._lookup('a key', True, False, [], info, None), info])"
    "({})",
    "utils.partial_flatten_asdict([3, ('a', {'b': input_info(is_leaf=True)})])",
    *(f"accumulated_on((False, 3), (True, None), {last})" for last in ("(False, 4)", "(True, None)")),
    *(
        f"changed_in_joint({change}{known})"
        for change in ("id", "lambda x: x.t_()")
        for known in ("", ", mutates_metadata=True")
    ),
    "waiting_for_event()",
    *(f"states_of_subgraphs({backward})" for backward in (False, True)),
    *(f"without_key({strict})" for strict in ("False, False", "True, False", "False, True")),
    "[input_output_analysis.create_synthetic_base_metadata(metadata(keep_input_mutations=True, input_info=["
    "input_info(mutates_metadata=True, mutates_storage_metadata=True, mutations_hidden_from_autograd=True,"
    " keep_input_mutations=True)], output_info=[]), [0], [ramp(4)], [ramp(4)], [tangent(0)])[0].input_info[0]"
    ".mutates_storage_metadata]",
    *(
        "cut('weighed', joint('a sin primals_1; b cos a; c mm b primals_2; d mul.Tensor a c; e sin d;"
        " f cos e; g mul.Tensor tangents_1 d; h mul.Tensor g e', 'f', 'h'),"
        f" ban_recompute_used_far_apart={banned})"
        for banned in (True, False)
    ),
    "[torch._dynamo.backends.distributed.DDPOptimizer._ignore_parameter(None, each) for each in (thing(),"
    " thing(_ddp_ignored=True), thing(_ddp_ignored=False))]",
    "[synchronized(('is_forward', None), ('is_backward', 3), ('is_backward', 4),"
    " ('must_be_in_backward', 3))]",
    "[runtime_wrappers._is_fsdp_all_gather_copy_in(type(name, (), {'namespace': of})) for of in"
    " ('fsdp', 'c10d') for name in ('all_gather_copy_in.default', 'split.default')]",
    "[graph_compile.is_opaque_node(of) for of in (3, fx.Graph().placeholder('x'))]",
    "[sorted(each.meta) for made in [joint('a sin primals_1', 'a')] if torch._functorch._aot_autograd."
    "aot_autograd_result.serialize_graph_module(made) for each in made.graph.nodes]",
    "[str(graph_compile._log_inference_graph(graph(lambda g: unary(g, aten.sin.default)), aot_config("
    "enable_log=False, cache_info=of))).count('aten.sin.default') for of in (None, 'of a cache')]",
    "[m.num_opaque_objects_saved_for_bw for m in [metadata()] for _ in [configured({}, lambda:"
    " graph_compile._categorize_saved_tensors_for_backward(graph(lambda g: unary(g, aten.sin.default),"
    " x={'val': torch.classes.profiling._ScriptProfile()}, sin_default={'val': fake(2)}), None, m,"
    " metadata(), 0), donated_buffer=False)]]",
    "anomalies_within()",
    "[prologues(True), prologues(False)]",
    "regions()",
    "[functional_utils.is_fun(type('Bare', (TwoTensor,), {'__tensor_flatten__': lambda self: ([], None)})("
    "ramp(2), ramp(2)))]",
    "[configured({}, lambda: runtime_wrappers.FunctionalizedRngRuntimeWrapper().pre_compile(None, [],"
    " aot_config(), fw_metadata=metadata()), functionalize_rng_ops=of) for of in (False, True)]",
    "[graph_compile.collect_bw_donated_buffer_idxs(*[joint('a sin primals_1', 'a', a='nothing')] * 2,"
    " metadata(num_symints_saved_for_bw=0, num_opaque_objects_saved_for_bw=0,"
    " num_tensors_saved_with_no_vc_check=0))]",
    "(lambda stat, record: [-stat.miss + (record('key', hit, miss, False, False) or stat.miss) for hit, miss"
    " in ((True, False), (False, True))])(autograd_cache.cache_stats._stats['LocalAOTAutogradCache'],"
    " autograd_cache.AOTAutogradCache._record_result)",
    *(
        "[line[:40] for line in cut('weighed', joint('n0 sin primals_1; ' + '; '.join(f'n{at} sin n{at - 1}'"
        " for at in range(1, 130)) + '; g mul.Tensor tangents_1 n1', 'n129', 'g'"
        f"{known})).splitlines() if line.startswith('source')]"
        for known in ("", ", n50='save'")
    ),
    "(lambda seen: [with_effects(lambda x, o: seen.append(o) or x.sin(), ramp(2), opaque()),"
    " seen[0] is seen[1]])([])",
    "set_and_written()",
)
