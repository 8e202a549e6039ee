"""What dynamo does with functions that it compiles, as far as the recorder has to know it. Imports no torch.

Dynamo runs a copy of a function that it compiles, and of the functions that this calls it takes over the
code: they are traced, and never called.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any


def watch(traced: Callable[[types.CodeType], object]) -> bool:
    """Has ``traced`` called with the code of each function that dynamo traces into its caller.

    Returns False, and does nothing, as long as dynamo is not imported.
    """
    module = sys.modules.get("torch._dynamo.symbolic_convert")
    tracer: Any = getattr(module, "InliningInstructionTranslator", None)
    if tracer is None:
        return False
    begin = tracer.__init__

    def begun(self: object, parent: object, code: types.CodeType, *args: object, **kwargs: object) -> None:
        traced(code)
        begin(self, parent, code, *args, **kwargs)

    tracer.__init__ = begun
    return True


def hide(code: types.CodeType) -> bool:
    """Keeps dynamo from compiling a profile function, which it would where that gets a frame with tensors.

    Returns False, and does nothing, as long as dynamo is not imported.
    """
    skip: Any = getattr(sys.modules.get("torch._dynamo.eval_frame"), "skip_code", None)
    if skip is None:
        return False
    skip(code)
    return True
