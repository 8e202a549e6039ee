r"""A compiled function loses writes to a 0-dimensional float64 argument.

kind: silently wrong
expected: The argument is 6 after mul_(3), and the function returns 7, as in eager and for float32, int64 or
  one dimension more.
happens: The argument stays 2, and what follows the write computes with 2, too: the function returns 3. So
  with aot_eager and inductor; a view of a larger tensor is concerned, too.
fails: silently wrong: argument
since: 2.11
before: 2.14
reach: public API
fuzzer: compile
upstream: none found
who: Whoever keeps a running loss, a counter or a scale as a 0-dimensional double, as an argument, a buffer
  or a global, and compiles its update; so does a compiled step of Adam on such a parameter.
seen: ^(aot|compile|inductor): silently wrong: (argument|output) #: (values|gradient)[^|]*\|
    (?=[^|]*(\w_\(|\] = |out=| [+*-]= ))[^|]*\| [^|]*\| [^|]*\by[0-9]: \(\) float64
"""

import torch


def f(a):
    a.mul_(3)
    return a + 1


a = torch.tensor(2.0, dtype=torch.float64)
out = torch.compile(f, backend="aot_eager")(a)
assert (a.item(), out.item()) == (6, 7), f"argument and output: {a.item()}, {out.item()}"
