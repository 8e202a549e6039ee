"""``verify_aot`` checks that a function compiled ahead of time behaves as in eager, and returns its graphs.

::

    from harness.graphs import verify_aot

    result = verify_aot(lambda a, b: (a.mul_(2), a.view(-1) + b), [torch.ones(2, 2), torch.ones(4)],
                        backend=my_compiler, test_mutation=True)
    print(result.forward_text)

It is for people who write a compiler of graphs, and for the suites. Eager and compiled run on independent
copies of the inputs. Compared are the outputs, the inputs after the call, which tensors alias each other, and
the gradients of each leaf through each output and each input that was written to: values, dtypes, shapes,
strides, ``requires_grad``, ``is_leaf``, types. The compiled function is called a second time with the same
inputs. That call must have the same results, compile no further graph, and leave the first call's outputs
unchanged.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.errors import UsageError
from harness.graphs.compilers import Compilers, Decompositions, Partitioner, compilers_of
from harness.graphs.differences import Tolerance
from harness.graphs.expected_errors import ExpectedError
from harness.graphs.fresh_inputs import FreshInputs
from harness.graphs.front_ends import AotFunction, FrontEnd
from harness.graphs.verified import VerificationResult
from harness.graphs.verifier import Verifier

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


def verify_aot(
    function: Callable[..., Any],
    inputs: Sequence[Any] | Callable[[], tuple[Sequence[Any], Sequence[Any]]],
    *,
    more_inputs: Sequence[Sequence[Any] | Callable[[], tuple[Sequence[Any], Sequence[Any]]]] = (),
    backend: str | Callable[..., Any] | tuple[Callable[..., Any], Callable[..., Any]] | Compilers = "nop",
    dynamic: bool = False,
    requires_grad: bool | Sequence[bool] | None = None,
    subclasses: Any = None,
    keep_input_mutations: bool | None = None,
    decompositions: Decompositions | None = None,
    partitioner: Partitioner | None = None,
    test_mutation: bool = False,
    mutation_gradients: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    raises: type[Exception] | None = None,
    raises_regex: str | None = None,
    debug_assert: bool = True,
    front_end: FrontEnd | None = None,
) -> VerificationResult:
    """Raise ``MismatchError``, an AssertionError, unless ``function`` behaves compiled as it does in eager.

    ``function``: a callable of positional arguments, or a module; eager and compiled each get a copy of a
    module. Tensors that ``function`` captures from its surroundings are neither copied nor compared, and most
    front ends refuse them.

    ``inputs``: the arguments, in containers of any kind. They are not changed: eager and compiled each get
    copies, which share storages and are views of each other as the originals are. Or a callable that returns
    ``(leaves, arguments)``, with equal values on each call; gradients are read from the leaves.
    ``more_inputs``: further values like ``inputs``, with which the same compiled function is called
    afterwards; their sizes may differ if ``dynamic``.

    ``backend``: ``"nop"``, ``"aot_eager"``, ``"inductor"``; a compiler of graphs, or a pair for forward
    and backward; ``Compilers``. ``partitioner`` and ``decompositions`` replace the backend's.

    ``dynamic``: sizes are symbolic. ``requires_grad``: whether the copies of the tensors require grad, one
    value for all or one per tensor; None: as the originals do. ``subclasses``: a function that makes a tensor
    subclass from each tensor in a list, or a context manager class that is active while a callable makes the
    inputs. ``keep_input_mutations``: whether writes to inputs stay in the graph; None: both are tried, and
    the graphs without such writes are returned. ``test_mutation``: arguments that require grad are not
    leaves, so that ``function`` may write to them, and after the backward each output is written to, which
    reveals all tensors that share its memory. ``mutation_gradients``: backward also runs from each input that
    ``function`` wrote to, if it does in eager. ``rtol``, ``atol``: as in ``torch.testing.assert_close``; give
    both or neither. ``raises``: the error that ``function`` raises in eager, in the call or in a backward.
    The compiled function has to raise an error of the same type as eager's, and nothing else is compared.
    ``raises_regex``: a pattern that the texts of both errors must contain. ``debug_assert``: whether the
    compiler checks its own assumptions during compilation and in each call.

    The message names the output, input or gradient of each difference. UsageError where the arguments are
    wrong or ``function`` cannot be compiled. An error of the eager run is raised with a note that says that
    it is eager's; an error of the compilation or of the compiled function is raised unchanged.
    """
    _check(callable(function), "function", function, "a callable or a module")
    _check((rtol is None) == (atol is None), "rtol, atol", (rtol, atol), "both or neither: they go together")
    _check(front_end is None or isinstance(front_end, FrontEnd), "front_end", front_end, "a FrontEnd")
    compilers = compilers_of(backend)
    if decompositions is not None:
        is_mapping = isinstance(decompositions, Mapping)
        _check(is_mapping, "decompositions", decompositions, "a dict of operators and functions")
        compilers = replace(compilers, decompositions=decompositions)
    if partitioner is not None:
        _check(
            callable(partitioner), "partitioner", partitioner, "a function of a joint graph and its inputs"
        )
        compilers = replace(compilers, partitioner=partitioner)
    _check(isinstance(more_inputs, (list, tuple)), "more_inputs", more_inputs, "a list of further inputs=")
    fresh = functools.partial(
        FreshInputs, requires_grad=requires_grad, subclasses=subclasses, writable=test_mutation
    )
    verifier = Verifier(
        function=function,
        inputs=fresh(inputs),
        more_inputs=[fresh(more) for more in more_inputs],
        compilers=compilers,
        dynamic=dynamic,
        write=test_mutation,
        mutation_gradients=mutation_gradients,
        tolerance=Tolerance(rtol, atol),
        expected_error=_expected_error(raises, raises_regex),
        debug_assert=debug_assert,
        front_end=front_end or AotFunction(),
    )
    rounds = (True, False) if keep_input_mutations is None else (keep_input_mutations,)
    return [verifier.round(keep) for keep in rounds][-1]


def _check(good: bool, name: str, value: object, wanted: str) -> None:
    if not good:
        raise UsageError(f"{name}={value!r}: give {wanted}")


def _expected_error(raises: Any, pattern: Any) -> ExpectedError | None:
    is_error = isinstance(raises, type) and issubclass(raises, Exception)
    _check(raises is None or is_error, "raises", raises, "the class of an exception")
    if raises is None:
        _check(pattern is None, "raises_regex", pattern, "raises= as well, the class of the exception")
        return None
    try:
        re.compile("" if pattern is None else pattern)
    except (re.error, TypeError) as error:
        raise UsageError(f"raises_regex={pattern!r}: give a regular expression ({error})") from error
    return ExpectedError(raises, pattern)
