"""What torch's tracers raise, by its meaning for whoever wrote the function that was traced."""

from __future__ import annotations

from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

#: A number was decided by, or returned, that is only in a tensor.
DECISIONS = (GuardOnDataDependentSymNode, DataDependentOutputException)
#: A size or a number is only known once there is data.
UNBACKED = (*DECISIONS, DynamicOutputShapeException)

# Part of what FakeTensorMode says, by an AssertionError, to a tensor from outside of the trace.
_CAPTURED = "Please convert all Tensors to FakeTensors first"


def is_of_captured_tensor(error: BaseException) -> bool:
    """Whether a trace met a tensor that was not given to it, one of a variable around the function."""
    return isinstance(error, AssertionError) and _CAPTURED in str(error)
