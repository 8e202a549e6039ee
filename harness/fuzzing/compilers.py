"""The compilers of random functions: expressions over ``f``, and the helpers that they call.

A script contains the text of those helpers that its expression names. A helper ends the script with exit code
0 where torch refuses the function by a restriction that it documents: the program says nothing.
"""

from __future__ import annotations

import itertools

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

_EXPORTED = '''\

def exported(strict):
    """Exports f for the inputs of its first call, and runs what was exported."""
    made = []

    class Module(torch.nn.Module):
        def forward(self, {parameters}):
            return f({parameters})

    def run(*arguments):
        from torch._dynamo.exc import Unsupported, UserError
        from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

        if not made:
            examples = tuple(inputs()[1])
            try:
                made.append(torch.export.export(Module(), examples, strict=strict).module())
            except (UserError, Unsupported, GuardOnDataDependentSymNode) as error:
                print("export does not support it:", error)
                raise SystemExit(0)
        return made[0](*arguments)

    return run


'''
_MARKED = '''\

def marked(compiled, mark):
    """Calls a compiled function with arguments whose sizes, but for 0 and 1, are marked as dynamic."""

    def run(*arguments):
        from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

        for each in arguments:
            for dimension in range(each.dim()):
                if each.shape[dimension] > 1:
                    mark(each, dimension)
        try:
            return compiled(*arguments)
        except (torch._dynamo.exc.UserError, ConstraintViolationError) as error:
            print("the function asks for a certain size:", error)
            raise SystemExit(0)

    return run


'''
_BACKWARDS = '''\

def with_compiled_backward(function, backend, dynamic):
    """A function with the context in which its backwards are compiled."""
    import torch._dynamo.compiled_autograd

    def run(*arguments):
        return function(*arguments)

    def compiler(graph):
        return torch.compile(graph, backend=backend, dynamic=dynamic)

    run.backwards = lambda: torch._dynamo.compiled_autograd._enable(compiler, dynamic=dynamic)
    return run


'''
_TRACED = '''\

def traced(compiled):
    """A function by aot_function, whose graph cannot depend on the data: what chooses by it is refused."""

    def run(*arguments):
        from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
        from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode as Guard

        try:
            return compiled(*arguments)
        except (DataDependentOutputException, DynamicOutputShapeException, Guard) as error:
            print("the function chooses by data:", error)
            raise SystemExit(0)

    return run


'''

_COMPILE = "torch.compile(f, backend={backend}, dynamic={dynamic})"
_MARK = 'marked(torch.compile(f, backend="aot_eager", dynamic=None), torch._dynamo.{mark})'
_AOT = "traced(aot_function(f, nop, nop, dynamic={dynamic}, keep_inference_input_mutations={keep}))"
_EAGER_FORWARD = 'with_compiled_backward(f, backend="aot_eager", dynamic={dynamic})'

#: By dynamo and AOTAutograd, without a compiler behind them.
DYNAMO: tuple[str, ...] = (
    *(_COMPILE.format(backend='"aot_eager"', dynamic=dynamic) for dynamic in (False, False, True)),
    *(_MARK.format(mark=mark) for mark in ("maybe_mark_dynamic", "mark_dynamic")),
)
INDUCTOR: tuple[str, ...] = tuple(
    _COMPILE.format(backend='"inductor"', dynamic=dynamic) for dynamic in (False, True)
)
#: By AOTAutograd alone.
AOT: tuple[str, ...] = tuple(
    _AOT.format(dynamic=dynamic, keep=keep)
    for dynamic, keep in itertools.product((False, True), (False, True))
)
EXPORT: tuple[str, ...] = ("exported(strict=False)", "exported(strict=True)")
#: The backward of eager's forward, and of a compiled one.
COMPILED_AUTOGRAD: tuple[str, ...] = (
    *(_EAGER_FORWARD.format(dynamic=dynamic) for dynamic in (False, True)),
    _EAGER_FORWARD.format(dynamic=False).replace("(f,", f"({DYNAMO[0]},"),
)


def helpers(compiler: str, parameters: str) -> str:
    """The text of the helpers that an expression calls, for a function of these parameters."""
    texts = {"exported(": _EXPORTED.format(parameters=parameters), "marked(": _MARKED,
             "with_compiled_backward(": _BACKWARDS, "traced(": _TRACED}  # fmt: skip
    return "".join(text for name, text in texts.items() if compiler.startswith(name))


def plainer_compilers(compiler: str) -> list[str]:
    """Expressions that are simpler by one change."""
    found = []
    for old, new in (
        ("dynamic=True", "dynamic=False"),
        ('"inductor"', '"aot_eager"'),
        ("strict=True", "strict=False"),
        (f"({DYNAMO[0]},", "(f,"),
        ("torch._dynamo.mark_dynamic", "torch._dynamo.maybe_mark_dynamic"),
    ):
        if old in compiler:
            found.append(compiler.replace(old, new))
    if compiler.startswith("marked("):
        found.append(DYNAMO[0])
    return found
