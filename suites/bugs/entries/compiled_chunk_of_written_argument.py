r"""A part of an argument that a compiled function has written to and cut into parts shares no memory with it.

kind: silently wrong
expected: What is written to the argument afterwards is seen in the part, as in eager, without a gradient, and
  where the function does not write.
happens: It is not: chunk, split and unbind give several views, of which AOTAutograd returns a copy where the
  argument needs a gradient and was written to.
fails: silently wrong: the part
since: 2.11
reach: public API
fuzzer: compiled-autograd
upstream: pytorch/pytorch#186503 is of the backward of such parts, and would keep them views
who: Whoever compiles code that writes to a buffer, returns a part of it and writes to the buffer again.
seen: ^[\w-]+: silently wrong: output #: shares memory with argument #[^|]*\|
    [^|]*\ba(\.detach\(\))?\.\w+_\([^|]*\b(?P<view>t\d+) = a\.(chunk|split|unbind|tensor_split)\([^|]*return
    [^|]*\b(?P=view)\b[^|]*\| [^|]*[1-9] leaves
"""

import torch


@torch.compile(backend="aot_eager")
def f(a):
    a.mul_(3)
    return a.chunk(2)[0]


x = torch.ones(4, requires_grad=True)
a = x * 1
part = f(a)
with torch.no_grad():
    a.fill_(7)
assert part.tolist() == [7, 7], f"the part: {part.tolist()}"
