"""``Verifier``: makes the eager and compiled runs of one ``verify_aot`` call and has them compared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch._functorch.config

from harness.errors import UsageError
from harness.graphs.call_checks import CallGraphs, FirstOutputs
from harness.graphs.capture import Capture
from harness.graphs.compilers import Compilers
from harness.graphs.differences import RunDifference, Tolerance, differences, different
from harness.graphs.expected_errors import ExpectedError
from harness.graphs.fresh_inputs import FreshInputs, can_be_called_again
from harness.graphs.front_ends import Compilation, FrontEnd
from harness.graphs.observation import Moment, Observation, PreparedCall, observe
from harness.graphs.tracing_errors import UNBACKED, is_of_captured_tensor
from harness.graphs.verified import VerificationResult
from harness.seeding import append_to_message

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# What a function may return besides tensors.
PLAIN = (int, float, complex, bool, str, torch.dtype, torch.device, torch.SymInt, type(None))
NOTHING_COMPILED = "no graph came to the compilers: what ran is not compiled code"


class UnbackedSize(UsageError):
    """A function needs a size or number that depends on data, so that it cannot be compiled ahead of time.

    The cause is in the function or in the choice to compile it, not in the compiler. Torch's own error is the
    ``__cause__``.
    """


class MismatchError(AssertionError):
    """A compiled function behaves differently from the function in eager: the compiler is wrong.

    ``differences`` are those that the message lists.
    """

    def __init__(self, message: str, differences: Sequence[RunDifference]) -> None:
        super().__init__(message)
        self.differences = tuple(differences)


@dataclass(frozen=True, slots=True)
class _VerificationRun:
    """One run of a round, with the graphs that it captured.

    ``keep``: whether input mutations stay in the graph. ``number`` counts the runs of a round from 0.
    """

    keep: bool
    number: int
    capture: Capture


@dataclass(frozen=True, slots=True)
class _CompiledFunction:
    """The compiled function of a run, and the prepared call with which it was called first."""

    run: _VerificationRun
    prepared: PreparedCall
    function: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Verifier:
    """The checked arguments of one ``verify_aot`` call; ``round`` runs the verification."""

    function: Callable[..., Any]
    inputs: FreshInputs
    more_inputs: Sequence[FreshInputs]
    compilers: Compilers
    dynamic: bool
    write: bool
    mutation_gradients: bool
    tolerance: Tolerance
    expected_error: ExpectedError | None
    debug_assert: bool
    front_end: FrontEnd

    def round(self, keep: bool) -> VerificationResult:
        """Make all runs of one round and return the result of the first run."""
        with self.front_end.round():
            first, *_ = [self._run(keep, number) for number in range(self.front_end.runs)]
        return first

    def _run(self, keep: bool, number: int) -> VerificationResult:
        capture = Capture()
        compilation = Compilation(capture.around(self.compilers), self.dynamic, keep)
        if self.expected_error is not None:
            self.expected_error.check(
                self._name(),
                lambda: self._observe_eager(self.inputs),
                lambda: self._compile_and_observe(compilation),
            )
            return VerificationResult(tuple(capture.graphs), None)
        eager, run = self._observe_eager(self.inputs), _VerificationRun(keep, number, capture)
        with self.front_end.run(number):
            call = CallGraphs(capture)
            prepared, function, first = self._compile_and_observe(compilation, eager.written)
            found = list(call.not_run(first))
            if not capture.graphs and self.front_end.compiles(number):
                found.append(RunDifference("compilation", NOTHING_COMPILED))
            self._require_no_difference(run, self.inputs, eager, first, found)
            verified = VerificationResult(tuple(capture.graphs), first.returned)
            compiled = _CompiledFunction(run, prepared, function)
            if can_be_called_again(self.function, prepared):
                self._call_again(compiled, eager, first)
            for index, inputs in enumerate(self.more_inputs):
                self._call_with_more_inputs(compiled, inputs, f"more_inputs[{index}]")
        return verified

    def _call_again(self, compiled: _CompiledFunction, eager: Observation, first: Observation) -> None:
        """Call again with fresh inputs: the compiled function may have kept something from its first call."""
        outputs, call = FirstOutputs(eager, first), CallGraphs(compiled.run.capture)
        second = self._observe_later_call(compiled, self.inputs, eager, "second call")
        found = [*call.not_run(second), *outputs.touched_by(second, "second")]
        if call.newly_compiled():
            found.append(
                RunDifference("compilation", f"{len(call.newly_compiled())} more graphs were compiled")
            )
        self._require_no_difference(compiled.run, self.inputs, eager, second, found, "second call")

    def _call_with_more_inputs(self, compiled: _CompiledFunction, inputs: FreshInputs, what: str) -> None:
        """Call with other inputs; the front end may compile another graph for them."""
        if not can_be_called_again(self.function, compiled.prepared):
            raise UsageError(
                f"more_inputs=: {self._name()} cannot be called again, since its call gives a parameter or "
                "buffer other sizes or another part in autograd: leave them out"
            )
        eager, call = self._observe_eager(inputs), CallGraphs(compiled.run.capture)
        further = self._observe_later_call(compiled, inputs, eager, what)
        found = [] if call.newly_compiled() else list(call.not_run(further))
        self._require_no_difference(compiled.run, inputs, eager, further, found, what)

    def _require_no_difference(
        self,
        run: _VerificationRun,
        inputs: FreshInputs,
        eager: Observation,
        compiled: Observation,
        found: Sequence[RunDifference],
        what: str = "",
    ) -> None:
        """Raise ``MismatchError`` for the differences in ``found`` and those between the two observations.

        ``what`` names the call in the message.
        """
        if inputs.come_from_callable:
            require_equal_beginnings(eager.before_call, compiled.before_call)
        found = [*found, *differences(eager, compiled, self.tolerance)]
        if found:
            raise MismatchError(self._message(found, run, what), found)

    def _observe_eager(self, inputs: FreshInputs) -> Observation:
        # Each run draws its random numbers from where the caller's generator stands.
        with torch.random.fork_rng():
            prepared = inputs.prepare(self.function)
            try:
                written = None if self.mutation_gradients else ()
                observed = observe(prepared.function, prepared, write=self.write, written=written)
            except Exception as error:
                known = "nothing was compiled yet" if inputs is self.inputs else "of more_inputs="
                add_note(error, f"This is the function itself, in eager: {known}.")
                raise
        require_known(observed.plain)
        return observed

    def _compile_and_observe(
        self, compilation: Compilation, written: Collection[str] = ()
    ) -> tuple[PreparedCall, Callable[..., Any], Observation]:
        """Compile and call once; returns the prepared call, the compiled function, and what was observed."""
        with torch.random.fork_rng(), self._settings():
            prepared = self.inputs.prepare(self.function)
            with self._explained(prepared):
                compiled = self.front_end.compile(prepared.function, compilation)
                observed = observe(compiled, prepared, write=self.write, written=written)
        return prepared, compiled, observed

    def _observe_later_call(
        self, compiled: _CompiledFunction, inputs: FreshInputs, eager: Observation, what: str
    ) -> Observation:
        """Observe a call of a function that was already compiled and called."""
        with torch.random.fork_rng(), self._settings():
            prepared = inputs.prepare(self.function, compiled.prepared)
            try:
                with self._explained(prepared):
                    return observe(compiled.function, prepared, write=self.write, written=eager.written)
            except Exception as error:
                add_note(error, f"This is a later call of what was compiled: {what}.")
                raise

    def _settings(self) -> AbstractContextManager[None]:
        # Backward runs once for each output, so that no run may reuse (donate) the saved buffers
        # (pytorch/pytorch#130580).
        patched: AbstractContextManager[None] = torch._functorch.config.patch(
            debug_assert=self.debug_assert, donated_buffer=False
        )
        return patched

    @contextmanager
    def _explained(self, prepared: PreparedCall) -> Iterator[None]:
        """A context that turns torch's errors about mistakes in the user's function into UsageErrors."""
        try:
            yield
        except UNBACKED as error:
            advice = "" if self.dynamic else ", or try dynamic=True"
            raise UnbackedSize(
                f"the function needs a size or number that is only known from data, which a graph made "
                f"ahead of time cannot have ({error}): leave that out, or compute it outside{advice}"
            ) from error
        except AssertionError as error:
            # Torch raises the same error for an argument that is not strided.
            strided = all(tensor.layout == torch.strided for _, tensor in prepared.inputs)
            if not (strided and is_of_captured_tensor(error)):
                raise
            raise UsageError(
                f"{self._name()} uses a tensor that is neither an argument nor a parameter or buffer of "
                f"the module that is verified: make it one of these ({error})"
            ) from error

    def _name(self) -> str:
        return getattr(self.function, "__qualname__", None) or type(self.function).__qualname__

    def _message(self, found: Sequence[RunDifference], run: _VerificationRun, what: str) -> str:
        said = [f"backend {self.compilers.name!r}", "dynamic" if self.dynamic else "static"]
        said.append("input mutations in the graph" if run.keep else "input mutations after the graph")
        if self.front_end.runs > 1:
            said.append(f"run {run.number + 1}")
        said += [what] if what else []
        lines = [f"{self._name()} compiled by {self.front_end.name} differs from eager ({', '.join(said)}):"]
        lines += [f"  {difference}" for difference in found]
        lines += [f"\n{graph.text}" for graph in run.capture.graphs if graph.role != "joint"]
        return "\n".join(lines)


def require_known(plain: Mapping[str, Any]) -> None:
    """UsageError for an output of a type that no compiled function can return."""
    for name, value in plain.items():
        if not isinstance(value, PLAIN):
            raise UsageError(
                f"{name} is a {type(value).__name__}: a function that is compiled ahead of time returns "
                "tensors, numbers, strings and None, in containers"
            )


def require_equal_beginnings(eager: Moment, compiled: Moment) -> None:
    """UsageError if the user's callable made other inputs for the eager call than for the compiled one."""
    exact = Tolerance(0, 0)
    for name, snapshot in eager.inputs.items():
        other = compiled.inputs.get(name)
        found = ["not there compiled"] if other is None else list(different(snapshot, other, exact))
        if found:
            raise UsageError(
                f"the callable inputs= makes other values each time: {name}: {found[0]}, before the call: "
                "let it depend on nothing but torch's random generator"
            )


def add_note(error: BaseException, note: str) -> None:
    """Add ``note`` to what is shown with ``error``."""
    if hasattr(error, "add_note"):
        error.add_note(note)
    else:
        append_to_message(error, note)
