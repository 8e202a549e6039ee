"""Calls about programs before they have graphs, and about what is saved of them for a backward."""

from __future__ import annotations

_PROGRAMS = (
    *(
        (f"lambda x: {result}", "leaf()")
        for result in (
            *(
                "[x.sin()]",
                "[x]",
                "[x.view(6)]",
                "[x.detach()]",
                "[x.sin().view(6)]",
                "[3, x.shape[0]]",
                "[]",
            ),
            *("[(y := x.sin()).view(6), y]", "[(y := x.sin()).view(6), y.t()]", "[y := x.sin(), y.t(), y]"),
            *(
                "[x.sin(), None]",
                "[Viewed.apply(x)]",
                "[Viewed.apply(x.sin())]",
                "[Viewed.apply(x), x.view(6)]",
            ),
            *("[x.sin().detach()]", "[aten._unsafe_view(x.sin(), [6])]", "[x.sin().to(torch.int32)]"),
            *("[(y := x.sin()).view(6), y.view(6)]", "[x.view(6), x.view(6)]", "[x.sin().unbind(0)[0]]"),
            *("[*x.sin().unbind(0)]", "[*x.unbind(0)]", "[*x.sin().split(1)]", "[x.expand(2, 2, 3)]"),
            *("[x.t().contiguous().t()]", "[x.sin().t()]", "[x.as_strided((2,), (1,))]", "[torch.ones(3)]"),
        )
    ),
    *(
        (f"lambda x: [{change}] and [x * 2]", made)
        for change in (
            *("x.mul_(2)", "x.t_()", "torch.no_grad()(x.mul_)(2)", "x.detach().mul_(2)", "x.view(6).mul_(2)"),
            *("x.mul_(2).t_()", "torch.no_grad()(x.set_)(torch.ones(4))", "x.copy_(x)", "x.unsqueeze_(0)"),
        )
        for made in ("leaf().clone()", "leaf()", "fake(2, 3)", "parameter()")
    ),
    *(
        (program, "leaf(), fake(2, 3)")
        for program in (
            "lambda x, y: [y.mul_(x)] and [y]",
            "lambda x, y: [y.mul_(2)] and [x * y, y.view(6)]",
            "lambda x, y: [y.t_()] and [x, y]",
            "lambda x, y: [torch.set_grad_enabled(False)] and [x * y]",
            "lambda x, y: [x * y, (z := x.cos()).view(6), z.t()]",
            "lambda x, y: [x, y, x, y.detach()]",
        )
    ),
    ("lambda x, n: [x * n, n]", "leaf(), 3"),
    ("lambda x, n: [x * 2, n * 2]", "fake(2, 3), symbol()"),
    ("lambda x: [x.sin(), x.t()]", "of_two(fake(2, 3)).requires_grad_()"),
    ("lambda x: [x.mul_(2)] and [x]", "of_two(fake(2, 3))"),
    (
        "lambda x: [x.sin()]",
        "of_two(fake(2, 3, 4, 5).to(memory_format=torch.channels_last)).requires_grad_()",
    ),
    ("lambda x: [torch.set_autocast_enabled('cpu', True)] and [x]", "fake(2, 3)"),
    ("lambda x: [torch.set_autocast_dtype('cpu', torch.float16)] and [x]", "fake(2, 3)"),
    ("lambda x: [PlainAOTOutput(0)]", "leaf()"),
    ("lambda x: [x]", "'a'"),
    ("lambda x: [3]", "thing()"),
)
FOUND = (
    *(f"found({program}, {inputs})" for program, inputs in _PROGRAMS),
    *(
        f"found(lambda x: [x.mul_(2)] and [x * 2], {made}, {option})"
        for made in ("leaf().clone()", "fake(2, 3)")
        for option in ("keep_input_mutations=False", "static_input_indices=[0]", "pre_dispatch=True")
    ),
)
_WRITTEN = "input_info(mutates_data=True), input_info(mutates_metadata=True), input_info()"
_GRAD = "requires_grad=True, requires_grad_for_backward=True"
_SINE = "lambda x, *more: x.sin()"
_CHAIN = "'a sin primals_1; b mul.Tensor a primals_2; g mul.Tensor tangents_1 a'"
STEPS = (
    *(
        f"outputs_with_inputs({outs}, {inputs}{more})"
        for outs, inputs, more in (
            (f"[{_SINE}]", "[ramp(2), ramp(3), 4]", ", output_info=[output_info()]"),
            (
                f"[{_SINE}, 5]",
                "[ramp(2), ramp(3), 4]",
                f", output_info=[output_info()] * 2, input_info=[{_WRITTEN}]",
            ),
            (f"[{_SINE}]", "[ramp(2)]", ""),
            ("[]", "[ramp(2), ramp(3), 4]", f", input_info=[{_WRITTEN}]"),
        )
    ),
    *(
        f"prepared({outs}, {inputs}{more})"
        for outs, inputs, more in (
            (f"[{_SINE}]", "[ramp(2)]", f", output_info=[output_info({_GRAD})]"),
            (
                f"[{_SINE}, 5, lambda x, *more: x]",
                "[ramp(2), ramp(3), 4]",
                f", output_info=[output_info({_GRAD}), output_info(raw_type=int, {_GRAD}), output_info()],"
                f" input_info=[input_info(mutates_data=True, requires_grad=True), {_WRITTEN}]",
            ),
            *(
                (
                    "[lambda x, y: (x * 2).view(2, 1), lambda x, y: y.view(3, 1)]",
                    "[ramp(2), ramp(3)]",
                    f", num_intermediate_bases={bases}, output_info=[output_info("
                    "'alias_of_intermediate_save_as_output', base_idx=0), output_info("
                    f"'{kind}', base_idx=0, {_GRAD})]",
                )
                for kind, bases in (
                    *(("is_input", 1), ("unsafe_view_alias", 1), ("custom_function_view", 1)),
                    *(("alias_of_input", 0), ("alias_of_intermediate", 1)),
                )
            ),
            ("[5]", "[ramp(2)]", ", output_info=[output_info('alias_of_intermediate_save_as_output')]"),
            (f"[{_SINE}]", "[ramp(2)]", ""),
        )
    ),
    *(
        f"differentiated({given})"
        for given in (
            "[lambda x, y: x * y], [True], [ramp(2).requires_grad_(), ramp(2)], [ramp(2)]",
            "[lambda x, y: x * y, lambda x, y: y.sin(), 5], [True, True, False],"
            " [ramp(2).requires_grad_(), ramp(2).requires_grad_()], [ramp(2), ramp(2)]",
            "[lambda x, y: x * y, lambda x, y: y.cos()], [False, True],"
            " [ramp(2).requires_grad_(), ramp(2)], [ramp(2)]",
            "[lambda x, y: x * y], [False], [ramp(2).requires_grad_(), ramp(2)], []",
            "[lambda x, y: x * y], [True], [ramp(2), ramp(2)], [ramp(2)]",
            "[lambda x, y: x * y], [True], [ramp(2, 3).requires_grad_(), 4], [ramp(3, 2)]",
            "[lambda x, y: x * y], [True], [ramp(2).requires_grad_(), 3], []",
            "[lambda x, y: x * y], [], [ramp(2).requires_grad_(), 3], []",
            "[lambda x, y: x * 2], [True], [ramp(2).requires_grad_(), ramp(3).requires_grad_()], [ramp(2)]",
            "[lambda x, y: x, lambda x, y: x], [True] * 2, [ramp(2).requires_grad_(), 3], [ramp(2), ramp(2)]",
        )
    ),
    *(
        f"donated({given})"
        for given in (
            f"{_CHAIN}, 'a'",
            f"{_CHAIN}, 'a primals_2'",
            f"{_CHAIN}, 'a', metas={{'a': 'unchecked'}}",
            f"{_CHAIN}, 'a', ends=('a', 'g')",
            "'a sin primals_1; b exp a; c exp b; g mul.Tensor tangents_1 a; h mul.Tensor g b', 'a b',"
            " ends=('c', 'h')",
            "'a sin primals_1; b exp a; c exp b; g mul.Tensor tangents_1 a; h mul.Tensor g b', 'a b',"
            " ends=('c', 'h'), metas={'b': 'unchecked'}",
            "'a sin primals_1; b view a flat; c exp b; g mul.Tensor tangents_1 a; h view g flat', 'a',"
            " ends=('b', 'h')",
            "'a sin primals_1; b exp a; g mul.Tensor tangents_1 a', 'a', metas={'a': 'nothing'}",
            "'t t_ primals_1; a sin t; b exp a; g mul.Tensor tangents_1 a', 'a'",
        )
    ),
    *(
        f"detached({given})"
        for given in (
            "[True, False], [input_info(requires_grad=True), input_info(requires_grad=True)]",
            "[False, False], [input_info(requires_grad=True, is_leaf=True), input_info()]",
            "[False, True, False], [input_info(requires_grad=True)] * 2, num_backward_tokens=1",
            "[False, True, False, True], [input_info(requires_grad=True)] * 2, num_backward_tokens=1,"
            " num_outputs_rng_offset=1",
            "[False], [input_info(requires_grad=True)] * 2",
            "[False] * 2, [input_info(requires_grad=True)] * 2, thing()",
            "[False], [input_info(requires_grad=True, mutates_metadata=True,"
            " mutates_storage_metadata=True, keep_input_mutations=True,"
            " mutations_hidden_from_autograd=True)]",
        )
    ),
    *(
        f"with_effects({program}, {inputs}{more})"
        for program, inputs, more in (
            *(
                ("lambda x: checked_info(x) or x.sin()", inputs, more)
                for inputs in ("ramp(3)", "ramp(3).requires_grad_()")
                for more in ("", ", unlift_effect_tokens=True")
            ),
            *(
                (
                    "lambda x: checked_info(x) or (y := x.sin()) is None or checked_info(y) or y * x",
                    "ramp(3)",
                    more,
                )
                for more in ("", ", unlift_effect_tokens=True")
            ),
            ("lambda x, y: checked_info(y) or x * y", "ramp(3).requires_grad_(), ramp(3)", ""),
            ("lambda x: x.sin()", "ramp(3).requires_grad_()", ""),
        )
    ),
    *(
        f"with_graph_hooks({program}, {hooks}, ramp(3).requires_grad_(), ramp(3))"
        for program, hooks in (
            ("lambda x, y: (x.sin() * x).exp() * y", "lambda t: t.double() * 2, lambda t: (t / 2).float()"),
            ("lambda x, y: x.sin() * x", "lambda t: (t, 3), lambda of: of[0] * of[1]"),
        )
    ),
    "states(2)",
    "states(3)",
    *(
        f"str(pickler()._stabilize_tensor_subclass_metadata({value}))"
        for value in (
            *("opaque()", "[opaque(), 3]", "(opaque(), [opaque()])", "{'a': [opaque()]}"),
            "(1, [2, {'a': (3,)}])",
            "{'a': [1, 'b']}",
            "'a'",
            "[[1], (2, 3)]",
        )
    ),
    *(
        f"[pickler()._stable_hash_for_cache_value({one}) == pickler()._stable_hash_for_cache_value({other})]"
        for one, other in (
            ("ramp(2)", "ramp(2) + 1"),
            ("ramp(2)", "ramp(3)"),
            ("of_two()", "of_two()"),
            ("of_two()", "of_two().requires_grad_()"),
            ("of_two()", "of_two(ramp(3, 2))"),
            ("thing(_stable_hash_for_caching=lambda: 3)", "thing(_stable_hash_for_caching=lambda: 3)"),
            ("(1, 2)", "(1, 3)"),
        )
    ),
    "pickler()._stable_hash_for_cache_value(thing(_stable_hash_for_caching=lambda: 3))",
    "pickler()._reduce_aot_config(aot_config(num_params_buffers=3, is_export=True, static_input_indices=[2],"
    " enable_log=False, aot_id=5, pre_dispatch=True, precompile_backend_id='a'))[1]",
    "functional_utils._is_functional_graph(graph(lambda g: (lambda x, y: [g.call_function(aten.copy_.default,"
    " (x, y)), g.call_function(aten.set_.source_Tensor, (x, y))])(*unary(g, aten.sin.default))).graph)",
    *(
        f"utils.contain_metadata_mutation_ops(graph(lambda g: unary(g, {target})))"
        for target in ("aten.sin.default", "aten.t_.default", "aten.mul_.Tensor", "len")
    ),
    *(
        f"subclass_utils.remap_unwrapped_subclass_arg_indices({args}, {indices})"
        for args, indices in (
            ("[ramp(2), of_two(), 3]", "[0, 2]"),
            ("[ramp(2), of_two(), 3]", "[1]"),
            ("[of_two(), TwoTensor(of_two(), of_two()), 3]", "[1, 2]"),
        )
    ),
    *(
        f"functional_utils.gen_alias_from_base({base}, {target}, False, replay_views=False).tolist()"
        for base, target in (
            ("ramp(8)[::2]", "ramp(4).view(2, 2)"),
            ("ramp(8)[::2]", "ramp(4)[1:]"),
            ("ramp(6)[1:5]", "ramp(4).view(2, 2)"),
            ("ramp(6)[:4]", "ramp(4).view(2, 2)"),
            ("ramp(2, 3)", "ramp(6).view(3, 2)"),
        )
    ),
    *(f"replayed(ramp(6), ramp(6).view(2, 3){more})" for more in ("", ", (3, 2)")),
)
#: Captures, what a backward says of another tangent, pieces of DDPOptimizer, and numbers that change.
STAGES = (
    *(f"decomposed({selective})" for selective in (False, True)),
    *(f"[copied_on({streams})]" for streams in ("3, 4", "3, 3", "None, 4", "None, None")),
    *(
        f"counters({made}, {write})"
        for made in ("ramp(2, 3)", "of_two(ramp(2, 3))")
        for write in ("id", "lambda t: t.mul_(2)", "lambda t: t.data.mul_(2)")
    ),
    *(
        f"[str(runtime_wrappers.AOTDispatchAutograd._raise_tangent_metadata_error({expected}, 'a', {found},"
        " 'b', ramp(2), 3, tangent(1), '4/5', 'a line')).splitlines()[3:6]]"
        for expected in ("None", "torch.Tensor", "TwoTensor")
        for found in ("torch.Tensor", "Odd")
    ),
    *(
        f"capture_mode({settings})"
        for settings in (
            "",
            "is_export=True",
            "pre_dispatch=True",
            "pre_dispatch=True, is_export=True",
            "disable_functionalization=True",
        )
    ),
    *(
        "functionalized([lambda x, y: x.mul_(2), lambda x, y: x * y], [ramp(2), ramp(2)], output_info=["
        f"output_info('is_input', base_idx={base}), output_info()], input_info=["
        f"input_info(mutates_data=True{keeps}), input_info()])"
        for base in (0, 1, None)
        for keeps in (", keep_input_mutations=True", "")
    ),
    "piece(False)",
    "piece(True)",
    "of_floats(lambda x, number: (x * number).sin(), 2.0, 3.0, 4.0)",
    "of_floats(lambda x, number: x.sin() * (number + 1), 2.0, 3.0)",
    *(f"donated_later({once})" for once in (True, False)),
    *(
        f"backward_written_with(num_tensors_saved_with_no_vc_check={unchecked},"
        f" num_graphsafe_rng_states={rng})"
        for unchecked, rng in ((3, 2), (0, 0))
    ),
    "inputs_of_joint(lambda x, y: x * y, of_two(ramp(2, 3)).requires_grad_(), ramp(2, 3))",
    *(f"[enabled_within({given})]" for given in ("False", "True", "True, ignore_active_disable_ctx=False")),
    *(f"reset_within({region})" for region in (False, True)),
    *(f"effects_of_subgraph('one', '{called}')" for called in ("one", "other")),
)
