r"""What is written into a detached alias of an argument has no gradient once compiled.

kind: silently wrong
expected: The alias requires a gradient after the write, as in eager, and b's is ones.
happens: The output requires none, so that the gradient of what was written is lost: with static and dynamic
  shapes, by aot_function and by torch.compile.
fails: silently wrong: the alias requires no gradient
since: 2.11
reach: public API
fuzzer: views
upstream: none found; pytorch/pytorch#95980 is of writes to such aliases that autograd is not to see
who: Whoever writes a result into a detached buffer that the function was given, and goes on from it.
seen: ^(views|aot|compile|inductor): silently wrong: output #: requires_grad False compiled, True in
    eager[^|]*\| [^|]*\.detach\(\); [^|]*\.(copy_|add_|mul_|sub_)\([^|]*return
"""

import torch


@torch.compile(backend="aot_eager")
def f(a, b):
    alias = a.detach()
    alias.copy_(b)
    return alias


leaves = [torch.ones(3, requires_grad=True) for _ in range(2)]
found = f(*(leaf * 1 for leaf in leaves))
assert found.requires_grad, "the alias requires no gradient"
