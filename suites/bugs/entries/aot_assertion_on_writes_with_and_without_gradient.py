"""The compiler's own check fails on writes to an argument with and one without gradient.

kind: internal assertion
expected: With debug_assert the function is compiled as without it.
happens: 'expected len(user_mutated_inputs_raw) == len(mut_inp_infos)': writes that are kept in the graph
  are counted.
fails: internal assertion: AssertionError: expected len.user_mutated_inputs_raw.
since: 2.11
reach: internal entry: aot_function with functorch's debug_assert
fuzzer: aot.test_view_programs
upstream: none found
who: Whoever develops a compiler on aot_function, and looks for errors by debug_assert.
seen: expected len.user_mutated_inputs_raw.
"""

import torch
import torch._functorch.config
from functorch.compile import aot_function, nop


def f(a, b):
    a.mul_(2)
    b.zero_()
    return a * b


torch._functorch.config.debug_assert = True
x = torch.ones(3, requires_grad=True)
aot_function(f, nop, nop, keep_inference_input_mutations=True)(x * 1, torch.ones(3))
