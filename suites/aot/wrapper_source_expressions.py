"""Calls of what writes the wrappers around graphs."""

from __future__ import annotations

#: What is said of results that want gradients, inputs that are written, and all kinds of both.
GRAD = "requires_grad=True, requires_grad_for_backward=True"
WRITTEN = "input_info(mutates_data=True{})"
KINDS = (
    *("non_alias", "unsafe_view_alias", "custom_function_view", "alias_of_input", "is_input"),
    *("alias_of_intermediate", "alias_of_intermediate_save_as_output"),
    "alias_of_intermediate_base_is_user_output",
)
INPUTS = (
    "[input_info(), input_info(mutates_data=True), input_info(mutates_data=True, requires_grad=True),"
    " input_info(mutates_metadata=True, requires_grad=True)]"
)
OUTPUTS = (
    "output_info(" + GRAD + "), output_info(requires_grad=True), output_info(raw_type=int, " + GRAD + "),"
    " output_info('unsafe_view_alias', " + GRAD + "), output_info('custom_function_view', " + GRAD + "),"
    " output_info('is_input', base_idx=0, " + GRAD + ")"
)
_CUDA = "num_outputs_rng_offset=1, is_rng_op_functionalized=True"
_PAIR = "of_subclass(ramp(2, 3), safe=True)"

SOURCES = (
    *(
        f"wrapper('{name}')"
        for name in (
            *("prologue", "epilogue", "forward", "backward", "runtime", "dedupe", "tokens", "rng", "bases"),
            *("subclasses", "backward of subclasses"),
        )
    ),
    *(
        f"wrapper('prologue', {given}{fields})"
        for given, fields in (
            ("{}", f", input_info={INPUTS}, output_info=[{OUTPUTS}]"),
            (
                "{}",
                f", output_info=[{OUTPUTS}], num_intermediate_bases=2, traced_tangents_descs=[tangent(1)]",
            ),
            ("{}", ", num_backward_tokens=1"),
            ("{}", ", num_backward_tokens=3"),
            ("{}", f", {_CUDA}"),
            ("{}", ", deterministic=False"),
            ("{}", ", deterministic=True"),
            ("{}", ", tangent_source_stack_traces=['here', None], compile_id_str='3/1'"),
            ("{}", ", indices_of_inputs_that_requires_grad_with_mutations_in_bw=[0]"),
            ("{'subclasses': thing()}", f", subclass_tangent_meta=[{_PAIR}, plain(ramp(2))]"),
            ("{'subclasses': thing(), 'unwrap': len}", f", output_info=[{OUTPUTS}]"),
        )
    ),
    *(
        f"wrapper('epilogue', {given}{fields})"
        for given, fields in (
            ("{}", ", num_backward_tokens=1"),
            ("{}", ", num_backward_tokens=3"),
            ("{}", f", {_CUDA}"),
            ("{}", ", num_outputs_rng_offset=2, is_rng_op_functionalized=True"),
            (f"{{'subclasses': thing(grad_input_metas=[{_PAIR}])}}", ", num_backward_tokens=1"),
            (f"{{'subclasses': thing(grad_input_metas=[{_PAIR}]), 'wrap': len}}", ""),
            ("{'subclasses': thing(grad_input_metas=None)}", ""),
        )
    ),
    *(
        f"wrapper('forward', {given})"
        for given in ("{'states': (3, 4)}", "{'no_amp': True}", "{'rng': 1}", "{'states': (0,), 'rng': 2}")
    ),
    *(
        f"wrapper('backward', {given})"
        for given in ("{'rng': 1}", "{'unchecked': 0}", "{'unchecked': 1}", "{'wants': True, 'unchecked': 2}")
    ),
    *(
        f"wrapper('runtime', {given}{fields})"
        for given, fields in (
            ("{'joint': True}", ""),
            ("{'joint': True, 'detach': (1, 3), 'no_amp': True}", ""),
            ("{'detach': (1, 3), 'no_amp': True}", ""),
            *(
                (
                    joint,
                    ", input_info=[input_info(), input_info(mutates_metadata=True),"
                    " input_info(mutates_data=True),"
                    " input_info(mutates_data=True, mutates_metadata=True, is_leaf=True), input_info("
                    "mutates_data=True, mutates_metadata=True)]",
                )
                for joint in ("{}", "{'joint': True, 'keep': True}")
            ),
            (
                "{'keep': True}",
                f", input_info=[{WRITTEN.format(', keep_input_mutations=True')}, input_info(), "
                f"{WRITTEN.format(', keep_input_mutations=True, mutations_hidden_from_autograd=True')}]",
            ),
            ("{}", f", input_info=[{WRITTEN.format(', keep_input_mutations=True')}]"),
            ("{'keep': True}", ", input_info=[input_info(mutation_inductor_storage_resize=True)]"),
            *(
                (
                    "{}",
                    f", input_info=[{WRITTEN.format('')}] * 2, mutated_inp_stream_indices={streams}",
                )
                for streams in ("[None]", "[None, 3]", "[4, 0]")
            ),
            *(
                (
                    joint,
                    ", num_intermediate_bases=1, output_info=["
                    + ", ".join(f"output_info('{each}', base_idx=0, requires_grad=True)" for each in KINDS)
                    + "]",
                )
                for joint in ("{}", "{'joint': True}")
            ),
            *(
                (
                    "{}",
                    f", output_info=[output_info('{each}', base_idx=1), output_info('non_alias'),"
                    " output_info('is_input', base_idx=2)]",
                )
                for each in ("is_input", "alias_of_input", "alias_of_intermediate_base_is_user_output")
            ),
            ("{}", ", output_info=[output_info('is_input', base_idx='a')]"),
            ("{}", ", output_info=[output_info(), output_info(dynamic_dims={1}), output_info()]"),
            ("{}", ", grad_enabled_mutation=True"),
            ("{}", ", grad_enabled_mutation=False"),
            ("{}", ", tokens={'a': 1}"),
        )
    ),
    *(
        f"wrapper('dedupe', {{'mask': {mask}}})"
        for mask in ("(True, False)", "(False, True, True)", "()", "(True, False, True, False)")
    ),
    *(f"wrapper('tokens', tokens={tokens})" for tokens in ("{'a': 1}", "{'a': 1, 'b': 2, 'c': 3}")),
    *(
        f"wrapper('rng', {given}, {_CUDA}{fields})"
        for given, fields in (
            ("{}", ""),
            ("{'all_outs': False}", ", output_info=[output_info(), output_info()]"),
            ("{}", ", output_info=[output_info()], num_intermediate_bases=1"),
        )
    ),
    "wrapper('rng', {}, is_rng_op_functionalized=True, num_outputs_rng_offset=0)",
    *(
        f"wrapper('bases', {given})"
        for given in (
            *("{'groups': {0: [1]}}", "{'groups': {1: [0, 2], 0: [4]}}", "{'other': (3, 1)}"),
            *("{'changed': (1,)}", "{'changed': (2, 0)}"),
        )
    ),
    *(
        f"wrapper('subclasses', {given}, subclass_inp_meta=[{inputs}],"
        f" subclass_fw_graph_out_meta=[{outs}]{more})"
        for given, inputs, outs, more in (
            ("{}", "plain(ramp(2), 0)", "plain(ramp(2), 0)", ""),
            ("{}", _PAIR, "plain(ramp(2), 0)", ""),
            ("{}", f"plain(ramp(2), 0), {_PAIR}", f"{_PAIR}, plain(ramp(2), 2)", ""),
            ("{'saved': 2}", "plain(ramp(2), 0)", _PAIR, ""),
            ("{'saved': 0}", _PAIR, _PAIR, ""),
            ("{}", "of_subclass(ramp(2, 3))", "of_subclass(ramp(2, 3))", ""),
            ("{'frozen': [None, 3]}", f"{_PAIR}, {_PAIR}", "", ""),
            ("{'frozen': [3, None]}", f"{_PAIR}, {_PAIR}", "", ""),
            ("{}", f"plain(ramp(2), 0), {_PAIR}, plain(ramp(2), 3)", "", ", act_input_indices=[0, 2]"),
            ("{}", "of_subclass(ramp(2, 3), True, True)", "of_subclass(ramp(2, 3), True, True)", ""),
        )
    ),
    *(
        f"wrapper('backward of subclasses', {{'metas': {metas}}})"
        for metas in ("[]", "[plain(ramp(2), 0)]", f"[plain(ramp(2), 0), {_PAIR}]", "[None]")
    ),
)
