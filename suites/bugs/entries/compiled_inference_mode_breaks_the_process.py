r"""A compiled write under inference_mode fails, and then every operator of the process does.

kind: internal assertion
expected: An error of the compiler ends its own state: torch.ones works afterwards.
happens: Every operator fails from then on: 'INTERNAL ASSERT FAILED: Hit PythonDispatcher dispatch key but
  PythonDispatcherTLS was not set'.
fails: internal assertion: RuntimeError: state INTERNAL ASSERT FAILED
since: 2.11
reach: public API
fuzzer: compile
upstream: none found; pytorch/pytorch#180823 is of the compiler's error that comes first
who: Whoever catches the compiler's error, as a server or a notebook does, and goes on in the same process.
seen: ^(compile|inductor|export|compiled-autograd): internal assertion: RuntimeError: state INTERNAL
  ASSERT FAILED at "?PATH"?:#, please report a bug to PyTorch\. Hit PythonDispatcher dispatch key
"""

import torch
import torch._dynamo


def f(a):
    with torch.inference_mode():
        a[0] = 7
    return a


x = torch.ones(3)
try:
    torch.compile(f, backend="aot_eager")(x)
except torch._dynamo.exc.BackendCompilerFailed as error:
    print("the compiler's error:", type(error))
x + 1
