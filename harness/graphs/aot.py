"""``verify_aot``: a function compiled ahead of time does all that it does in eager, and these are its graphs.

::

    from harness.graphs import verify_aot

    result = verify_aot(lambda a, b: (a.mul_(2), a.view(-1) + b), [torch.ones(2, 2), torch.ones(4)],
                        backend=my_compiler, test_mutation=True)
    print(result.forward_text)

For people who write a compiler of graphs, and for the suites. Eager and compiled run on independent copies
of the inputs. Compared are the outputs, what happened to the inputs, what aliases what, and the gradients of
each leaf through each output and each input that was written to: values, dtypes, shapes, strides,
``requires_grad``, ``is_leaf``, types.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch._functorch.config

from harness.errors import UsageError
from harness.graphs.capture import Capture
from harness.graphs.compilers import Compilers, Decompositions, Partitioner, compilers_of
from harness.graphs.differences import Difference, Tolerance, differences
from harness.graphs.front_ends import AotFunction, Compilation, FrontEnd
from harness.graphs.grounds import Grounds
from harness.graphs.observation import Observation, observe
from harness.graphs.tracing_errors import UNBACKED, is_of_captured_tensor
from harness.graphs.verified import Verified
from harness.seeding import append_to_message

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# What a function may return besides tensors.
PLAIN = (int, float, complex, bool, str, torch.dtype, torch.device, torch.SymInt, type(None))


class UnbackedSize(UsageError):
    """A function needs a size or number that depends on data, so that it cannot be compiled ahead of time.

    The function's author's fault, or the choice of what to compile; torch's own error is its cause.
    """


class Differs(AssertionError):
    """A compiled function does something else than the function: the compiler's fault.

    ``differences`` are those that the message lists.
    """

    def __init__(self, message: str, differences: Sequence[Difference]) -> None:
        super().__init__(message)
        self.differences = tuple(differences)


def verify_aot(
    function: Callable[..., Any],
    inputs: Sequence[Any] | Callable[[], tuple[Sequence[Any], Sequence[Any]]],
    *,
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
    debug_assert: bool = True,
    front_end: FrontEnd | None = None,
) -> Verified:
    """Raise ``Differs``, an AssertionError, unless ``function``, compiled ahead of time, does as in eager.

    ``function``: a callable of positional arguments, or a module, of which each side has a copy. Tensors that
    it captures are neither copied nor compared, and most front ends refuse them.

    ``inputs``: the arguments, in containers of any kind. They stay as they are: each side has copies, which
    share storages and are views of each other as these are. Or a callable that makes
    ``(leaves, arguments)``, called once for each side; gradients are read off the leaves.

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
    raises in eager, in the call or in a backward; compiled it has to raise it too, and nothing else is
    compared. ``debug_assert``: whether the compiler checks its own assumptions, when compiling and in each
    call.

    The message says of each difference in which output, input or gradient it is. UsageError where the
    arguments or ``function`` are not what can be compiled. What the eager run raises comes through with a
    note that says so; what the compilation or the compiled function raises comes through as it is.
    """
    _check(callable(function), "function", function, "a callable or a module")
    _check((rtol is None) == (atol is None), "rtol, atol", (rtol, atol), "both or neither: they go together")
    is_error = isinstance(raises, type) and issubclass(raises, Exception)
    _check(raises is None or is_error, "raises", raises, "the class of an exception")
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
    verifier = _Verifier(
        function=function,
        grounds=Grounds(inputs, requires_grad=requires_grad, subclasses=subclasses, writable=test_mutation),
        compilers=compilers,
        dynamic=dynamic,
        write=test_mutation,
        mutation_gradients=mutation_gradients,
        tolerance=Tolerance(rtol, atol),
        raises=raises,
        debug_assert=debug_assert,
        front_end=front_end or AotFunction(),
    )
    rounds = (True, False) if keep_input_mutations is None else (keep_input_mutations,)
    return [verifier.round(keep) for keep in rounds][-1]


def _check(good: bool, name: str, value: object, wanted: str) -> None:
    if not good:
        raise UsageError(f"{name}={value!r}: give {wanted}")


@dataclass(frozen=True, slots=True)
class _Verifier:
    """The arguments of one verification, checked."""

    function: Callable[..., Any]
    grounds: Grounds
    compilers: Compilers
    dynamic: bool
    write: bool
    mutation_gradients: bool
    tolerance: Tolerance
    raises: type[Exception] | None
    debug_assert: bool
    front_end: FrontEnd

    def round(self, keep: bool) -> Verified:
        """All runs of one round; what the first found."""
        with self.front_end.round():
            first, *_ = [self._run(keep, number) for number in range(self.front_end.runs)]
        return first

    def _run(self, keep: bool, number: int) -> Verified:
        capture = Capture()
        compilation = Compilation(capture.around(self.compilers), self.dynamic, keep)
        if self.raises is not None:
            return self._refused(self.raises, compilation, capture)
        with torch.random.fork_rng():
            eager = self._eager()
        with self.front_end.run(number):
            compiled = self._compiled(compilation, eager.written)
        found = [*self._idle(capture, number, compiled), *differences(eager, compiled, self.tolerance)]
        if found:
            raise Differs(self._message(found, keep, number, capture), found)
        return Verified(tuple(capture.graphs), compiled.returned)

    def _refused(self, kind: type[Exception], compilation: Compilation, capture: Capture) -> Verified:
        for where, run in (("in eager", self._eager), ("compiled", lambda: self._compiled(compilation))):
            try:
                run()
            except kind:
                continue
            raise AssertionError(f"{self._name()} did not raise {kind.__name__} {where}")
        return Verified(tuple(capture.graphs), None)

    def _eager(self) -> Observation:
        function = self._own_copy()
        ground = self.grounds.make(function)
        try:
            written = None if self.mutation_gradients else ()
            observed = observe(function, ground, write=self.write, written=written)
        except Exception as error:
            add_note(error, "This is the function itself, in eager: nothing was compiled yet.")
            raise
        require_known(observed.plain)
        return observed

    def _compiled(self, compilation: Compilation, written: Collection[str] = ()) -> Observation:
        function = self._own_copy()
        ground = self.grounds.make(function)
        # A backward for each output keeps the buffers that a compiled backward would like to reuse.
        with torch._functorch.config.patch(debug_assert=self.debug_assert, donated_buffer=False):
            try:
                compiled = self.front_end.compile(function, compilation)
                return observe(compiled, ground, write=self.write, written=written)
            except UNBACKED as error:
                raise UnbackedSize(
                    f"the function needs a size or number that is only known from data, which a graph made "
                    f"ahead of time cannot have ({error}): leave that out, or compute it outside"
                ) from error
            except AssertionError as error:
                if not is_of_captured_tensor(error):
                    raise
                raise UsageError(
                    f"{self._name()} uses a tensor that is neither an argument nor a parameter or buffer of "
                    "the module that is verified: make it one of these"
                ) from error

    def _idle(self, capture: Capture, number: int, compiled: Observation) -> Iterator[Difference]:
        """What shows that the compiled code is not what ran."""
        calls = [graph for graph in capture.graphs if graph.role in ("forward", "inference")]
        if not calls and self.front_end.compiles(number):
            yield Difference("compilation", "no graph came to the compilers: what ran is not compiled code")
        for graph in calls:
            if not any(graph is other for other in capture.ran):
                yield Difference(f"{graph.role} graph", "it was compiled and never ran")
        wanted = any(graph.role == "forward" for graph in calls) and compiled.computed_gradients()
        if wanted and not any(graph.role == "backward" for graph in capture.ran):
            yield Difference("backward", "no compiled one ran: the gradients come from elsewhere")

    def _own_copy(self) -> Callable[..., Any]:
        return copy.deepcopy(self.function) if isinstance(self.function, torch.nn.Module) else self.function

    def _name(self) -> str:
        return getattr(self.function, "__qualname__", None) or type(self.function).__qualname__

    def _message(self, found: Sequence[Difference], keep: bool, number: int, capture: Capture) -> str:
        said = [f"backend {self.compilers.name!r}", "dynamic" if self.dynamic else "static"]
        said.append("input mutations in the graph" if keep else "input mutations after the graph")
        if self.front_end.runs > 1:
            said.append(f"run {number + 1}")
        lines = [f"{self._name()} compiled by {self.front_end.name} differs from eager ({', '.join(said)}):"]
        lines += [f"  {difference}" for difference in found]
        lines += [f"\n{graph.text}" for graph in capture.graphs if graph.role != "joint"]
        return "\n".join(lines)


def require_known(plain: Mapping[str, Any]) -> None:
    """UsageError for an output that no compiled function can return."""
    for name, value in plain.items():
        if not isinstance(value, PLAIN):
            raise UsageError(
                f"{name} is a {type(value).__name__}: a function that is compiled ahead of time returns "
                "tensors, numbers, strings and None, in containers"
            )


def add_note(error: BaseException, note: str) -> None:
    """Show ``note`` with ``error``."""
    if hasattr(error, "add_note"):
        error.add_note(note)
    else:
        append_to_message(error, note)
