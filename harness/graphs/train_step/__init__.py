"""Train steps as graphs: forward, backward, gradient all-reduces and optimizer step in one FX graph.

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

A tool for tests: what a data-parallel step communicates can be read off its graph, and counted
(``harness.graphs.communication``). ``torch.distributed._spmd``, from whose behaviour the contract is taken,
is no longer part of torch.
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

#: Under this key a decorated function's ``__dict__`` has its ``CompiledStep``, from its first call on.
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
    """A decorator that makes a train step of a data-parallel rank one graph.

    The function takes one module, at most one optimizer, tensors and plain values. Each parameter's gradient
    is **summed** over the ranks of ``group`` (a process group, a mesh of one dimension, ``(mesh,
    dimension)``; None: the default group), once, when it is complete; what the step returns stays local.
    Parameters have to be equal on all ranks: nothing is broadcast. The module's parameters and buffers and
    the optimizer's state change in place; gradients exist in the graph only, and are seen where the step
    returns them.

    * ``module_override``: see ``Override``. ``gm_transformation`` is called once with each new graph; what it
      returns is run instead.
    * ``bucket_mb``: gradients that are ready one after another are summed together, up to so many MiB.
    * ``warm_up``: a call that needs a new graph, of an optimizer that has no state for some parameter, runs
      eagerly, so that it gets one. Without it such an optimizer is an error, unless it needs no state.
    * ``max_graphs``: how many graphs there may be. A call gets the graph that was traced for the same: module
      and optimizer, shapes and dtypes, hyper-parameters, plain arguments, attributes of modules, and the
      variables and attributes that the code of the step and of what it calls names (``reads.py``). A new
      learning rate needs no new graph.

    UsageError for arguments that cannot be used, here and when the step is called.
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
