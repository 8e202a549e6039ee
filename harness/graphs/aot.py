"""``verify_aot``: a function compiled ahead of time does all that it does in eager, and these are its graphs.

::

    from harness.graphs import verify_aot

    result = verify_aot(lambda a, b: (a.mul_(2), a.view(-1) + b), [torch.ones(2, 2), torch.ones(4)],
                        backend=my_compiler, test_mutation=True)
    print(result.forward_text)

For people who write a compiler of graphs, and for the suites. Eager and compiled run on independent copies
of the inputs. Compared are the outputs, what happened to the inputs, what aliases what, and the gradients of
each leaf through each output and each input that was written to: values, dtypes, shapes, strides,
``requires_grad``, ``is_leaf``, types. The compiled function is called twice: it does the same again, compiles
nothing more for it, and leaves the outputs of the first call alone.
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
from harness.graphs.expected_errors import Refusal
from harness.graphs.fresh_inputs import Grounds
from harness.graphs.front_ends import AotFunction, FrontEnd
from harness.graphs.verified import Verified
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
) -> Verified:
    """Raise ``Differs``, an AssertionError, unless ``function``, compiled ahead of time, does as in eager.

    ``function``: a callable of positional arguments, or a module, of which each side has a copy. Tensors that
    it captures are neither copied nor compared, and most front ends refuse them.

    ``inputs``: the arguments, in containers of any kind. They stay as they are: each side has copies, which
    share storages and are views of each other as these are. Or a callable that makes
    ``(leaves, arguments)``, of equal values each time that it is called; gradients are read off the leaves.
    ``more_inputs``: others, each like ``inputs``, with which the same compiled function is called afterwards;
    of other sizes where these are ``dynamic``.

    ``backend``: ``"nop"``, ``"aot_eager"``, ``"inductor"``; a compiler of graphs, or a pair for forward
    and backward; ``Compilers``. ``partitioner`` and ``decompositions`` replace the backend's.

    ``dynamic``: sizes are symbolic. ``requires_grad``: whether the copies of the tensors do, one for all or
    one each; None, as they are. ``subclasses``: a function that makes a tensor subclass of each tensor in a
    list, or a context manager class within which a callable makes them. ``keep_input_mutations``: whether
    writes to inputs stay in the graph; None, both are tried, and the graphs are those without.
    ``test_mutation``: arguments that require grad are no leaves, so that ``function`` may write to them, and
    in the end each output is written to, which shows in all that shares its memory. ``mutation_gradients``:
    backward runs from each input that ``function`` wrote to as well, where it does in eager. ``rtol``,
    ``atol``: as in ``torch.testing.assert_close``, together or not at all. ``raises``: what ``function``
    raises in eager, in the call or in a backward; compiled it has to raise an error of the type that eager's
    had, and nothing else is compared. ``raises_regex``: a pattern that is found in the texts of both errors.
    ``debug_assert``: whether the compiler checks its own assumptions, when compiling and in each
    call.

    The message says of each difference in which output, input or gradient it is. UsageError where the
    arguments or ``function`` are not what can be compiled. What the eager run raises comes through with a
    note that says so; what the compilation or the compiled function raises comes through as it is.
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
    grounds = functools.partial(
        Grounds, requires_grad=requires_grad, subclasses=subclasses, writable=test_mutation
    )
    verifier = Verifier(
        function=function,
        grounds=grounds(inputs),
        more_grounds=[grounds(more) for more in more_inputs],
        compilers=compilers,
        dynamic=dynamic,
        write=test_mutation,
        mutation_gradients=mutation_gradients,
        tolerance=Tolerance(rtol, atol),
        refusal=_refusal(raises, raises_regex),
        debug_assert=debug_assert,
        front_end=front_end or AotFunction(),
    )
    rounds = (True, False) if keep_input_mutations is None else (keep_input_mutations,)
    return [verifier.round(keep) for keep in rounds][-1]


def _check(good: bool, name: str, value: object, wanted: str) -> None:
    if not good:
        raise UsageError(f"{name}={value!r}: give {wanted}")


def _refusal(raises: Any, pattern: Any) -> Refusal | None:
    is_error = isinstance(raises, type) and issubclass(raises, Exception)
    _check(raises is None or is_error, "raises", raises, "the class of an exception")
    if raises is None:
        _check(pattern is None, "raises_regex", pattern, "raises= as well, the class of the exception")
        return None
    try:
        re.compile("" if pattern is None else pattern)
    except (re.error, TypeError) as error:
        raise UsageError(f"raises_regex={pattern!r}: give a regular expression ({error})") from error
    return Refusal(raises, pattern)
