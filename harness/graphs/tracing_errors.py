"""The errors of torch's tracers, grouped by what they mean for the author of the traced function."""

from __future__ import annotations

from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

#: The function branched on, or returned, a number that is only known from a tensor's data.
DECISIONS = (GuardOnDataDependentSymNode, DataDependentOutputException)
#: A size or a number is only known once there is data.
UNBACKED = (*DECISIONS, DynamicOutputShapeException)

# Part of the message of FakeTensorMode's AssertionError about a tensor from outside of the trace
# (pytorch/pytorch#165114, pytorch/pytorch#127374).
_CAPTURED = "Please convert all Tensors to FakeTensors first"


def is_of_captured_tensor(error: BaseException) -> bool:
    """Whether the trace met a tensor that was not an argument, such as one that the function captures."""
    return isinstance(error, AssertionError) and _CAPTURED in str(error)
