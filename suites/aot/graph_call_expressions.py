"""Calls of functions about graphs: which may be cached, what is saved of them, what is captured."""

from __future__ import annotations

#: Nodes that a cache takes, or does not.
_NODES = (
    "lambda g: g.placeholder('x')",
    "lambda g: g.call_module('layer')",
    "lambda g: g.create_node('root', 'x')",
    *(
        f"lambda g: g.call_function({target})"
        for target in (
            *("aten.sin.default", "aten.sin", "torch.sin", "torch.nn.functional.relu", "torch.sym_int"),
            *(
                "torch.autograd.grad",
                "torch.functional.einsum",
                "len",
                "fake",
                "torch.cond",
                "torch.autograd.Function",
            ),
            *(
                "torch.nn.functional._canonical_mask",
                "torch.distributed.tensor.DTensor.from_local",
                "fx.Graph",
            ),
            *("torch.ops.higher_order.wrap", "torch.autograd.function.FunctionCtx", "operator.add"),
        )
    ),
    "lambda g: g.call_method('sin', (g.placeholder('x'),))",
    "lambda g: g.call_method('sin', (3,))",
)
CACHED = (
    *(f"autograd_cache.check_node_safe(node({build}))" for build in _NODES),
    "autograd_cache.check_node_safe(node(lambda g: g.call_method('sin', (given(example_value=3),))))",
    *(
        f"autograd_cache.check_node_safe(calls(fake, is_wrapped={wrapped}, user_cache_hash={of}))"
        for wrapped, of in ((True, "'abc'"), (True, None), (False, "'abc'"))
    ),
    "autograd_cache.check_cacheable(graph(lambda g: unary(g, aten.sin.default)))",
    "autograd_cache.check_cacheable(graph(lambda g: unary(g, fake)))",
    *(
        f"configured({{'{name}': {value}}}, lambda: autograd_cache.check_cacheable(graph(unary)))"
        for name, value in (("freezing", True), ("fx_graph_cache", False))
    ),
    *(
        f"configured({{'fx_graph_cache': {local}, 'fx_graph_remote_cache': {remote}}},"
        " lambda: autograd_cache.check_cacheable(graph(unary)))"
        for local, remote in ((False, True), (True, False), (False, False))
    ),
    *(
        "autograd_cache.check_cacheable(with_hooks("
        f"graph(unary), graph(lambda g: unary(g, {pack})), graph(lambda g: unary(g, {unpack}))))"
        for pack, unpack in (("aten.sin.default", "aten.cos.default"), ("fake", "len"), ("len", "fake"))
    ),
    *(
        f"autograd_cache._get_custom_estimator_solver_uuids(thing(activation_memory_budget_{what}))"
        for what in (
            *("runtime_estimator='flops'", "runtime_estimator=len", "runtime_estimator=Estimator('a')"),
            *("runtime_estimator=Estimator(None)", "solver='dp'", "solver=len", "solver=Solver('b')"),
            "solver=Solver(None)",
        )
    ),
    "renamed(graph(lambda g: unary(g, aten.sin.default, start='some')))",
    "configured({}, lambda: renamed(graph(lambda g: unary(g, aten.sin.default, start='some'))),"
    " autograd_cache_normalize_inputs=False)",
    "autograd_cache.AOTAutogradCache.evaluate_guards('True', [])",
)
PARTITIONED = (
    *(
        f"partitioners.{ask}(sine({meta}))"
        for ask, metas in (
            ("sym_node_size", ("val=symbol()", "val=symbol() > 3", "val=torch.sym_float(symbol())", "val=3")),
            (
                "_size_of",
                (
                    *(
                        "val=symbol()",
                        "val=fake(2, 3)",
                        "val=fake(2, 3).double()",
                        "val=[fake(2), fake(3), 5]",
                    ),
                    *("val={'a': fake(2), 'b': 5}", "val='a'", "other=3"),
                ),
            ),
            (
                "must_recompute",
                tuple(
                    f"recompute=CheckpointPolicy.{each}"
                    for each in ("MUST_SAVE", "PREFER_RECOMPUTE", "MUST_RECOMPUTE")
                ),
            ),
            ("_is_assert_only_symbool", ("val=symbol() > 3",)),
        )
        for meta in metas
    ),
    "partitioners._size_of(node(lambda g: g.get_attr('x')))",
    "partitioners._size_of(calls(aten._assert_async.default, given()))",
    "partitioners.is_getitem_of_multi_output(calls(aten.sin.default))",
    *(
        "saved_of_effects(lambda g: items(0, 1)(g, g.call_function(torch.ops.higher_order.with_effects)),"
        f" with_effects={known}, getitem_1={more})"
        for known in ("{}", "MUST", "{'partitioner_tag': 'is_backward'}")
        for more in ("{}", "{'val': (1, 2)}")
    ),
    "saved_of_effects(lambda g: items(0, 1)(g, g.call_function(aten.max.dim)))",
    "partitioners.is_getitem_of_multi_output(calls(operator.getitem, 3, 0))",
    *(
        f"partitioners.is_getitem_of_multi_output(calls(operator.getitem, given({meta}), 0))"
        for meta in ("tensor_meta=1", "other=1")
    ),
    *(
        f"tagged(partitioners.cleanup_recompute_tags(graph(lambda g: unary(g, aten.sin.default,"
        f" aten.cos.default), x={x}, sin_default={sin}, cos_default={cos}), is_default_partition={default}))"
        for x, sin, cos in (
            ("{}", "MUST", "{}"),
            ("{}", "{**MUST, 'ac_graph_id': 1}", "{**MUST, 'ac_graph_id': 2}"),
            ("{}", "{**MUST, 'ac_graph_id': 2}", "{**MUST, 'ac_graph_id': 2}"),
            ("{}", "{**MUST, 'ac_graph_id': 1}", "{**MUST}"),
            ("{}", "MUST", "{**MUST, 'ac_graph_id': 1}"),
            ("{'ac_graph_id': 1}", "{**MUST, 'has_backward_hook': True}", "{}"),
            ("{}", "{**MUST, 'has_backward_hook': True}", "MUST"),
        )
        for default in (True, False)
    ),
    *(
        "tagged(partitioners.cleanup_recompute_tags(graph(lambda g: ["
        "g.call_function(aten.sin.default, (each,)) for each in items(0)(g,"
        " g.call_function(aten.max.dim, (g.placeholder('x'), 0)))],"
        f" max_dim={first}, sin_default=MUST), is_default_partition=True))"
        for first in ("{}", "{'ac_graph_id': 1}", "{'ac_graph_id': 1, 'tensor_meta': 2}")
    ),
    *(
        f"configured({{}}, lambda: partitioners.estimate_runtime(calls(aten.mm.default,"
        f" fake(2, 3), fake(3, 5))), activation_memory_budget_runtime_estimator={mode})"
        for mode in ("'testing'", "'flops'", "Estimator('a')", "'else'")
    ),
    "configured({}, lambda: partitioners.estimate_runtime(calls(aten.sin.default, fake(2, 3))),"
    " activation_memory_budget_runtime_estimator='flops')",
    *(
        f"graph_compile.collect_fw_donated_buffer_idxs({words})"
        for words in (
            "[], [], [], [fake(), fake()]",
            "[x := fake()], [y := fake()], [z := fake()], [x, fake(), y, z, None, fake(), x.view(6)]",
            "[None, ramp(2)], [], [None], [fake(), None, fake()]",
            "[fake()], [], [], []",
        )
    ),
    *(
        f"graph_compile._get_partition_fn(calls({target}, {meta}), None, {default})"
        for target, meta, default in (
            ("len", "a=1", "len"),
            ("len", "a=1", "None"),
            ("torch._higher_order_ops.invoke_subgraph", "a=1", "len"),
            ("torch._higher_order_ops.invoke_subgraph", "custom={}", "len"),
            *(
                (
                    "torch._higher_order_ops.invoke_subgraph",
                    f"custom={{'nested_region_config': thing(partitioner={of})}}",
                    "len",
                )
                for of in ("None", "7", "'other'")
            ),
            ("len", "custom={'nested_region_config': thing(partitioner=7)}", "len"),
        )
    ),
    *(
        "graph_compile._get_partition_fn(calls(torch._higher_order_ops.invoke_subgraph,"
        f" custom={{'nested_region_config': thing(partitioner={of})}}), None, len)[1].keywords"
        for of in ("len", "'default_partition'", "'min_cut_rematerialization_partition'")
    ),
)
_FORWARD = "{'seq_nr': 4, 'nn_module_stack': 'layer', 'source_fn_stack': 'call', 'custom': {'a': 1, 'b': 2}}"
CAPTURED = (
    *(
        f"copied(sin_default={forward}, cos_default={{'seq_nr': 4, 'custom': {{'b': 3}}, **{first}}}, "
        f"exp_default={{'seq_nr': {number}, 'custom': {{'b': 5, 'c': 6}}, 'partitioner_tag': 'is_backward'}},"
        f" tan_default={{'seq_nr': 4, 'partitioner_tag': 'is_backward', **{more}}})"
        for forward in (_FORWARD, "{'seq_nr': 4}", "{'nn_module_stack': 'layer'}")
        for first in ("{}", "{'partitioner_tag': 'is_backward'}")
        for number, more in ((4, "{}"), (5, "{'is_gradient_acc': True}"))
    ),
    "compiler().wrap_fake(3, None)",
    "compiler().wrap_fake(ramp(3), None).dim()",
    *(
        f"compiler().{name}"
        for name in ("unpack_hook(0, 0)", "tensor_pre_hook([ramp(3)], 0, 0)", "pre_hook([], 0)")
    ),
    *(f"compiler().{name}" for name in ("post_hook([], [], 0)", "post_acc_grad_hook(ramp(3), 0)")),
    *("compiler().post_acc_grad_hook(3, 0)", "compiler().bind_backward_state(0)"),
    "compiler().to_proxy((None, [3, 'a'], torch.float32))",
    "compiler().to_proxy(ramp(3))",
    "compiler().bind_objects_to_proxies([ramp(3)], [])",
    *(
        f"compiler().is_sym_node(node(lambda g: g.call_function({of})))"
        for of in ("aten.sym_size.int", "aten.sym_numel.default", "aten.sin.default")
    ),
    "compiler().is_sym_node(3)",
    "traced(lambda g: placeholders(g)[0]).dce()",
    "traced(lambda g: placeholders(g, 'inputs', 'sizes')[0]).dce()",
    "traced(lambda g: 3).dce()",
    "after('dce', lambda g: [g.call_function(operator.getitem, (each, 0)) for each in placeholders(g)[:2]]"
    " and [g.call_function(aten.sin.default, (3,))][:0])",
    "after('dce', lambda g: [g.call_function(aten.sin.default, (3,)) for each in placeholders(g)[:1]][:0])",
    *(
        f"after('dce', lambda g: placeholders(g) and [g.call_function(compiled_autograd.{name})][:0])"
        for name in ("call_hook", "call_backward", "call_accumulate_grad", "clone_preserve_strides")
    ),
    "traced(lambda g: placeholders(g, 'inputs', 'other')[0]).remove_unused_sizes()",
    "traced(lambda g: called_on(g, 'sizes', aten.sin.default)).remove_unused_sizes()",
    "traced(lambda g: called_on(g, 'sizes', items(4, 1, 3))).remove_unused_sizes()",
    "traced(lambda g: called_on(g, 'sizes', items('a'))).remove_unused_sizes()",
    "after('remove_unused_sizes', lambda g: called_on(g, 'sizes', items(4, 1, 3)))",
    "after('remove_unused_sizes', lambda g: called_on(g, 'sizes', items(4, 1, 3))[1:])",
    "after('remove_unused_sizes', lambda g: called_on(g, 'sizes', items(4, 1, 3))[:0])",
    *(
        f"compiled_autograd.NaNChecker({grad}).prep_with_graph(graph({build}).graph)"
        for grad in (True, False)
        for build in (
            "unary",
            "lambda g: []",
            "lambda g: accumulated(g, items(1))[:0]",
            "lambda g: accumulated(g, items(1))",
            "lambda g: accumulated(g, aten.sin.default)[:0]",
            "lambda g: accumulated(g, items('a'))[:0]",
            "lambda g: accumulated(g, items(1), 'other')[:0]",
        )
    ),
    *(
        f"checked({grad}, {given}, {later}, {out})"
        for grad, given, later, out in (
            ("True", "None", "1", "[]"),
            ("True", "None", "NAN", "[]"),
            ("True", "NAN", "1", "[]"),
            ("True", "1", "None", "[]"),
            ("True", "1", "1", "[1]"),
            ("False", "NAN", "NAN", "[1, 2]"),
            ("False", "1", "1", "[1, NAN]"),
            ("False", "1", "1", "[NAN, NAN]"),
        )
    ),
    *(
        f"(lambda space: ([space.add('name', len, {custom}, {traceable}) for _ in range(2)], vars(space)))"
        "(compiled_autograd.OpNamespace())"
        for custom, traceable in ((True, True), (True, False), (False, True))
    ),
    *(
        f"(lambda space: (space.add('name', len, {custom}, {traceable}), space.get({name})([1, 2]),"
        f" space.get({name}).__name__))(compiled_autograd.OpNamespace())"
        for custom, traceable, name in (
            (True, True, "'CppNodename0'"),
            (False, True, "'name'"),
            (False, False, "'name'"),
        )
    ),
    "[repr(each) for each in [compiled_autograd.Op('name', len, True)]]",
    "compiled_autograd.extract_bw_module(thing(_lazy_backward_info=None))",
    "compiled_autograd.maybe_clone(None)",
    "compiled_autograd.maybe_clone(ramp(3, 2).t())",
    "compiled_autograd.copy_slices_prologue([ramp(6)], [6], [1], 2, [2], [2], 3)",
    "compiled_autograd.copy_slices_prologue([ramp(6)], [6], [1], 2, [2], [2], 3)[1].tolist()",
    *(
        f"compiled_autograd.copy_slices_epilogue({needs}, ramp(2), {given}, ramp(3))"
        for needs, given in (
            ("[True, True]", "[ramp(3), ramp(4)]"),
            ("[False, True]", "[ramp(3), ramp(4)]"),
            ("[True, False]", "[ramp(3), ramp(4)]"),
            ("[True, True]", "[None, ramp(4)]"),
            ("[True, True]", "[ramp(3), None]"),
        )
    ),
    *(
        f"hooks_moved('{name}', {kind})"
        for name, kind in (
            ("reorder_pre_hook_nodes_to_mimic_eager", "'pre_hook'"),
            ("reorder_pre_hook_nodes_to_mimic_eager", "'post_hook'"),
            ("reorder_post_acc_grad_hook_nodes", "'post_acc_grad_hook'"),
        )
    ),
)
