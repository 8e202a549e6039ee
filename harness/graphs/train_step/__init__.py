"""``compile`` traces a train step (forward, backward, gradient all-reduces, optimizer) into one FX graph.

::

    @train_step.compile()
    def step(module, optimizer, batch):
        loss = module(batch).sum()
        loss.backward()
        optimizer.step()
        return loss

    step(module, optimizer, batch)                  # traces the step, then runs its graph
    step(module, optimizer, batch)                  # runs the graph
    step.__dict__[COMPILED_OBJECT_KEY].gm           # the graph

It is a tool for tests, which read and count in the graph what a data-parallel step communicates
(``harness.graphs.communication``). The contract is that of ``torch.distributed._spmd``, which is no longer
part of torch (pytorch/pytorch#132072).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from harness.errors import UsageError
from harness.graphs.train_step.compiled import CompiledStep, GmTransformation, Options, StepGraph
from harness.graphs.train_step.overrides import Override
from harness.graphs.train_step.reduction import Group, check_group

__all__ = ["COMPILED_OBJECT_KEY", "CompiledStep", "Override", "StepGraph", "compile"]

#: The key of a decorated function's ``CompiledStep`` in the function's ``__dict__``, set by its first call.
COMPILED_OBJECT_KEY = "_compiled_obj"

Step = TypeVar("Step", bound=Callable[..., Any])


def compile(
    module_override: Sequence[Override] | None = None,
    gm_transformation: GmTransformation | None = None,
    *,
    group: Group = None,
    bucket_mb: float | None = None,
    warm_up: bool = False,
    max_graphs: int = 8,
) -> Callable[[Step], Step]:
    """Returns a decorator that traces the train step of a data-parallel rank into one graph and runs that.

    The function takes one module, at most one optimizer, tensors and plain values. Each parameter's gradient
    is **summed** over the ranks of ``group`` (a process group, a mesh of one dimension, ``(mesh,
    dimension)``, or None for the default group), once, when it is complete. What the step returns stays
    local to the rank. Parameters have to be equal on all ranks, because nothing is broadcast. The module's
    parameters and buffers and the optimizer's state change in place. Gradients exist inside the graph only;
    a step that needs them afterwards returns them.

    * ``module_override``: see ``Override``. ``gm_transformation`` is called once with each new graph, and the
      graph module that it returns is run instead.
    * ``bucket_mb``: gradients that become ready one after another are all-reduced together, up to this many
      MiB.
    * ``warm_up``: if a call needs a new graph and the optimizer has no state yet for some parameter, that
      call runs eagerly, which creates the state. Without ``warm_up`` such a call is an error, unless the
      optimizer keeps no state.
    * ``max_graphs``: the most graphs that the step may have. A call reuses a graph that was traced for the
      same module and optimizer, shapes and dtypes, hyper-parameters, plain arguments and module attributes,
      and for the same values of the variables and attributes that the step's code reads (``reads.py``). A
      new learning rate needs no new graph.

    Raises UsageError for arguments that cannot be used, both here and when the step is called.
    """
    options = Options(
        overrides=_checked_overrides(module_override),
        gm_transformation=gm_transformation,
        group=group,
        bucket_mb=bucket_mb,
        warm_up=warm_up,
        max_graphs=max_graphs,
    )
    _check(options)
    return functools.partial(_decorated, options=options)


def _checked_overrides(overrides: Any) -> Sequence[Override]:
    if overrides is None:
        return ()
    if callable(overrides) and not isinstance(overrides, Override):
        raise UsageError(
            "compile takes options and returns the decorator: write @compile(), with parentheses"
        )
    if not isinstance(overrides, Sequence) or not all(isinstance(each, Override) for each in overrides):
        raise UsageError(f"module_override is {overrides!r}: give a list of instances of Override")
    return tuple(overrides)


def _check(options: Options) -> None:
    check_group(options.group)
    if options.gm_transformation is not None and not callable(options.gm_transformation):
        raise UsageError(
            f"gm_transformation is {options.gm_transformation!r}: give a function of a graph module"
        )
    size, count = options.bucket_mb, options.max_graphs
    if size is not None and not (isinstance(size, (int, float)) and size > 0):
        raise UsageError(f"bucket_mb is {size!r}: give a size in MiB, more than 0")
    if not isinstance(count, int) or count < 1:
        raise UsageError(f"max_graphs is {count!r}: a step needs one graph at least")
    if not isinstance(options.warm_up, bool):
        raise UsageError(f"warm_up is {options.warm_up!r}: give True or False")


def _decorated(function: Any, options: Options) -> Any:
    if not callable(function):
        raise UsageError(f"compile() decorates a function, not a {type(function).__qualname__}")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise UsageError(
            f"{function.__qualname__} does not run when it is called: a train step is a plain function"
        )
    if hasattr(function, _MARK):
        raise UsageError(f"{function.__qualname__} is compiled already: decorate it once")
    compiled = CompiledStep(function, options)

    @functools.wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        result = compiled(*args, **kwargs)
        step.__dict__[COMPILED_OBJECT_KEY] = compiled
        return result

    setattr(step, _MARK, True)
    return step


_MARK = "_is_compiled_train_step"
