"""Calls of partitioners with joint graphs that are written by hand."""

from __future__ import annotations

#: Graphs: each with its results and gradients.
_CHAIN = "'a sin primals_1; b mul.Tensor a primals_2; g mul.Tensor tangents_1 a', 'b', 'g'"
_KEYWORDS = "'a sin primals_1; b mul.Tensor a other=primals_2; g mul.Tensor tangents_1 other=b', 'b', 'g'"
_TWO = "'m max.dim primals_1 1; v getitem m 0; i getitem m 1; w cos v; g mul.Tensor tangents_1 v', 'w', 'g'"
_AGAIN = (
    "'a sin primals_1; b cos a; c mm b primals_2; d sin c; g mul.Tensor tangents_1 c; h mul.Tensor g b;"
    " k mul.Tensor h a', 'd', 'k'"
)
_RANDOM = "'r rand_like primals_1; a mul.Tensor r primals_2; g mul.Tensor tangents_1 r', 'a', 'g'"
_TWO_RANDOM = (
    "'r rand_like primals_1; a mul.Tensor r primals_2; q rand_like a; b mul.Tensor a q; g mul.Tensor"
    " tangents_1 q; h mul.Tensor g r', 'b', 'h'"
)
_WRITTEN = (
    "'a sin primals_1; g mul.Tensor tangents_1 a; f copy_ primals_2 a; w copy_ primals_2 g', 'a', 'g w'"
)
_SIZED = (
    "'a sin primals_1; s sym_size.int a 0; b mul.Tensor a primals_2; e expand tangents_1 sizes;"
    " g mul.Tensor e s', 'b', 'g'"
)
_REDUCED = "'a all_reduce primals_1 0 0; w wait a; b mul.Tensor w w; g mul.Tensor tangents_1 w', 'b', 'g'"
_TWICE = "'a sin primals_1; b sin primals_1; c mul.Tensor a b; g mul.Tensor tangents_1 b', 'c', 'g'"
_UNUSED = "'r rand_like primals_1; a mul.Tensor r primals_2; g mul.Tensor tangents_1 primals_2', 'a', 'g'"
_OPAQUE = (
    "'a sin primals_1; f python primals_opaque; b mul.Tensor a primals_2; g mul.Tensor tangents_1 a;"
    " k python f', 'b', 'g k', 'primals_1 primals_2 primals_opaque tangents_1'"
)
_CUTS = (
    *((_CHAIN, more) for more in ("", ", a='save'", ", a='again', b='again'", ", a='unchecked traced'")),
    *((_CHAIN, more) for more in (", a='is_forward', b='is_forward'", ", g='is_backward'", ", b='traced'")),
    *((_CHAIN, more) for more in (", a='nothing'", ", a='must_be_in_forward'", ", a='must_be_in_backward'")),
    *((_CHAIN, more) for more in (", g='must_be_in_backward'", ", g='must_be_in_forward'", ", b='save'")),
    (_KEYWORDS, ""),
    *((_TWO, more) for more in ("", ", m='save'", ", v='save', i='save'", ", v='again', w='again'")),
    *((_AGAIN, more) for more in ("", ", a='again', b='again'", ", a='again', b='later', c='later'")),
    *(
        (_AGAIN, more)
        for more in (", b='save', c='again'", ", c='again', d='again'", ", b='again', k='traced'")
    ),
    *(
        (_RANDOM, more)
        for more in ("", ", r='again'", ", r='again', a='again'", ", r='save'", ", r='later nothing'")
    ),
    *(
        (_WRITTEN, more)
        for more in (
            ", f='must_be_in_forward', w='must_be_in_backward'",
            ", f='is_forward', w='is_backward'",
            ", f='must_be_in_forward', w='must_be_in_backward', a='again'",
            "",
        )
    ),
    (_RANDOM, ", a='again'"),
    (_RANDOM, ", r='is_forward again', a='is_forward again'"),
    (_UNUSED, ", r='again', a='again'"),
    (_TWO_RANDOM, ", r='again', q='again', a='again'"),
    (_TWICE, ""),
    (_OPAQUE, ""),
    (_OPAQUE, ", f='save'"),
    (_SIZED, ""),
    (_SIZED, ", a='save'"),
    *((_REDUCED, more) for more in ("", ", a='again', w='again'", ", w='save'")),
    ("'', 'primals_1', 'tangents_1'", ""),
    ("'a sin primals_1', 'a', 'none'", ""),
    ("'a sin primals_1; g cos primals_1', 'a', 'g'", ""),
)
CUT = (
    *(f"cut('{how}', joint({calls}{more}))" for how in ("default", "min") for calls, more in _CUTS),
    *(
        f"cut('default', joint({calls}), {more})"
        for calls, more in (
            (_CHAIN, "0"),
            (_CHAIN, "1, [0]"),
            (_CHAIN, "2"),
            (_REDUCED, "unsafe_allow_optimization_of_collectives=True"),
        )
    ),
    "cut('default', joint('a sin primals_1; b mul.Tensor a a; g mul.Tensor tangents_1 a', 'b', 'g',"
    " primals_2='nothing'))",
    "cut('default', joint('a sin primals_1; b cos a; g exp a', 'b', 'g', inputs='primals_1', a='again'))",
    *(
        f"cut('weighed', joint({calls}{known}){more})"
        for calls, known, more in (
            *(
                (_AGAIN, "", f", {settings}")
                for settings in ("1, [0]", "1, [1], treat_parameters_as_free_to_save=False")
            ),
            *(
                (_AGAIN, "", f", {settings}")
                for settings in (
                    *("aggressive_recomputation=True", "ban_recompute_used_far_apart=False"),
                    *("ban_recompute_not_in_allowlist=False", "max_dist_from_bw=1", "cse=False"),
                    *("ban_recompute_materialized_backward=False", "ban_recompute_reductions=False"),
                    *(
                        "activation_memory_budget=0",
                        "activation_memory_budget=2",
                        "activation_memory_budget=-1",
                    ),
                    *("activation_memory_budget=0.9", "activation_memory_budget=0.1"),
                )
            ),
            (_AGAIN, ", a='again', c='save'", ""),
            (_AGAIN, ", a='half'", ""),
            (_AGAIN, ", a={'memory_budget': 0.0}", ""),
            (_AGAIN, ", g='half'", ""),
            (_AGAIN, ", a={'memory_budget': 0.0}, d={'memory_budget': 1.0}", ""),
            *(
                (_AGAIN, f", {known}", "")
                for known in (
                    "a='budget', b='budget', c='budget', d='budget'",
                    "a='budget', b='budget', c='budget'",
                    "g='budget'",
                    "a={'custom': {'_region_activation_memory_budget': 0.3}}, b='budget', c='budget',"
                    " d='budget'",
                )
            ),
            (_SIZED, "", ""),
            (_RANDOM, "", ""),
            (_TWICE, "", ""),
            (_TWICE, "", ", cse=False"),
            (_RANDOM, "", ", ban_recompute_not_in_allowlist=False"),
            (_REDUCED, "", ""),
            (_REDUCED, ", a='again', w='again'", ""),
            (_REDUCED, "", ", activation_memory_budget=0.1"),
            (_TWO, "", ", recompute_views=True"),
            (_KEYWORDS, "", ""),
        )
    ),
)
_INNER = "'a sin primals_1; b cos a; c mm b primals_2; d sin c; g mul.Tensor tangents_1 c', 'd', 'g'"
PARTS = (
    *(
        f"part(joint({calls}), {more})"
        for calls, more in (
            (_INNER, "'primals_1', 'b'"),
            (_INNER, "'a primals_2', 'c a'"),
            (_INNER, "'c', 'd c nobody'"),
            (_INNER, "'primals_1', 'c'"),
            (_INNER, "'', 'a'"),
            (_INNER, "'primals_1 primals_2', 'b g'"),
            (_KEYWORDS, "'a', 'b'"),
            (_KEYWORDS, "'a primals_2', 'b'"),
            *(
                (
                    f"{_WRITTEN}, f='must_be_in_forward', w='must_be_in_backward'",
                    f"'{inputs}', '{outs}', {side}",
                )
                for inputs, outs, side in (
                    ("primals_1 primals_2", "a f", "'forward'"),
                    ("primals_1 primals_2", "a w", "'forward'"),
                    ("a primals_2 tangents_1", "g w", "'backward'"),
                    ("a primals_2 tangents_1", "g f", "'backward'"),
                    ("a primals_2 tangents_1", "g f w", "'backward', True"),
                    ("a w primals_2 tangents_1", "w", "'forward'"),
                    ("a tangents_1", "w", "'forward'"),
                    ("primals_1 primals_2", "f", "None"),
                )
            ),
            (f"{_INNER}, a='traced', b='traced'", "'primals_1', 'a b primals_1'"),
        )
    ),
    *(
        f"modules(joint({calls}), {more})"
        for calls, more in (
            (_INNER, "'c'"),
            (_INNER, "'a c b'"),
            (_INNER, "'b primals_2'"),
            (_INNER, "'a'"),
            (f"{_INNER}, c='unchecked', primals_2='unchecked'", "'c'"),
            (_AGAIN, "'a b c'"),
            (f"{_AGAIN}, b='unchecked'", "'a b c'"),
            (f"{_AGAIN}, a='unchecked', b='unchecked', c='unchecked'", "'a b c'"),
            (_AGAIN, "'a b c', omit_aot_autograd_runtime=True"),
            (f"{_WRITTEN}, f='must_be_in_forward', w='must_be_in_backward'", "'a primals_2'"),
            (
                f"{_WRITTEN}, f='must_be_in_forward', w='must_be_in_backward'",
                "'a primals_2', ignore_must_be_in_fw_bw=True",
            ),
            (_SIZED, "'a', 's'"),
            (_SIZED, "'a s'"),
            (
                "'a sin primals_1; s sym_size.int a 0; b mul.Tensor a primals_2; g mul.Tensor tangents_1"
                " a', 'b', 'g'",
                "'a', 's'",
            ),
            (_OPAQUE, "'a', '', 'f'"),
            (_OPAQUE, "'a f'"),
            (_OPAQUE, "'a', '', 'primals_opaque f'"),
            (_SIZED, "'primals_1', 's'"),
            (_CHAIN + ", 'primals_1 primals_2 tangents_1 fwd_seed_1 bwd_seed_1 fwd_base_offset_1'", "'a'"),
            (_CHAIN, "'a', outs=2"),
            (_CHAIN, "'a', outs=0"),
            (_REDUCED, "'a w'"),
            (
                "'a sin primals_1; w wait a; b mul.Tensor a primals_2; g mul.Tensor tangents_1"
                " primals_2', 'b', 'g'",
                "'a primals_2'",
            ),
        )
    ),
    *(
        f"classified(joint({calls}){more})"
        for calls, more in (
            *((_INNER, more) for more in ("", ", [1]", ", [0, 1], 2", ", [], 0")),
            (f"{_WRITTEN}, f='must_be_in_forward', w='must_be_in_backward'", ""),
            (f"{_WRITTEN}, w='is_backward'", ""),
            ("'a sin primals_1; u cos primals_2; g mul.Tensor tangents_1 a; h sin g', 'a', 'g'", ""),
            ("'a sin primals_1; u cos primals_2; v exp u; g mul.Tensor tangents_1 a', 'a', 'g'", ""),
            (_CHAIN + ", 'primals_1 primals_2 tangents_1 fwd_seed_1 bwd_seed_1'", ", [0]"),
        )
    ),
    *(
        f"marked('{name}', joint({calls}{known}))"
        for name, calls, known in (
            *(
                ("force_save_collectives", _REDUCED, known)
                for known in ("", ", a='again'", ", w='later'", ", b='again'")
            ),
            *(
                ("force_save_bw_mutation_src", _WRITTEN, known)
                for known in (
                    "",
                    ", f='must_be_in_forward', w='must_be_in_backward'",
                    ", w='must_be_in_forward', f='must_be_in_backward'",
                    ", f='must_be_in_forward'",
                    ", f='must_be_in_forward', w='is_backward'",
                )
            ),
            (
                "force_save_bw_mutation_src",
                "'a sin primals_1; f copy_ primals_1 a; w copy_ primals_2 a', 'a', 'w'",
                ", f='must_be_in_forward', w='must_be_in_backward'",
            ),
            (
                "force_save_bw_mutation_src",
                "'f copy_ primals_2 primals_1; a sin primals_1; w copy_ primals_2 a', 'a', 'w'",
                ", f='must_be_in_forward', w='must_be_in_backward'",
            ),
        )
    ),
    *(
        f"partitioners.{name}(joint({_RANDOM}{known}))"
        for name in ("has_recomputable_ops", "has_recomputable_rng_ops")
        for known in ("", ", r='again'", ", a='again'", ", a='save'", ", r='later', g='later'")
    ),
    *(
        f"reordered(joint({calls}))"
        for calls in (
            "'a sin primals_1; b cos primals_2; g mul.Tensor tangents_1 b; h mul.Tensor g a', '', 'h g'",
            "'a sin primals_1; u exp primals_2; g sin tangents_1; h mul.Tensor g a', '', 'h'",
            "'a sin primals_1; b cos a', 'b'",
            "'f copy_ primals_2 primals_1; a sin primals_1; g mul.Tensor tangents_1 a', '', 'g'",
            "'a sin primals_1; k cos tangents_2; g mul.Tensor tangents_1 k; h mul.Tensor g a', '', 'h',"
            " 'primals_1 tangents_1 tangents_2'",
        )
    ),
    *(
        f"[partitioners.{ask}(each) for each in joint({calls}{known}).graph.nodes]"
        for ask in ("_must_be_in_forward", "_must_be_in_backward")
        for calls, known in (
            (_WRITTEN, ""),
            (_WRITTEN, ", f='must_be_in_forward', w='must_be_in_backward'"),
            (_WRITTEN, ", f='is_forward', w='is_backward'"),
            (_WRITTEN, ", a='must_be_in_forward', g='must_be_in_backward', primals_1='is_backward'"),
        )
    ),
    *(
        f"partitioners.find_first_sym_node([*joint({_SIZED}).graph.nodes][{piece}])"
        for piece in ("3:5", "3:4", "4:5", "3:3", "3:7")
    ),
    *(
        "configured({}, lambda: [partitioners.is_non_builtin_to_include(each) for each in"
        f" (calls(custom('same')), sine(), calls(len), given())], is_non_builtin_to_include={included})"
        for included in (False, True)
    ),
    *(
        "[partitioners._is_assert_only_symbool(each) for g in [fx.Graph()] for each in [g.placeholder('x')]"
        f" if each.meta.update(val={known}) or [g.call_function(target,"
        f" (each,)) for target in {targets}] or True]"
        for known, targets in (
            ("symbol() > 3", "(aten._assert_scalar.default,)"),
            ("symbol() > 3", "(aten._assert_scalar.default, aten.sin.default)"),
            ("symbol() > 3", "(aten.sin.default,)"),
            ("symbol() > 3", "()"),
            ("symbol()", "(aten._assert_scalar.default,)"),
        )
    ),
    "[partitioners.is_not_collective(each) for each in joint(" + _REDUCED + ").graph.nodes]",
    "(lambda values: (partitioners._remove_by_name(values, 'b'), values))([calls(len, 1), given(), sine()])",
)
