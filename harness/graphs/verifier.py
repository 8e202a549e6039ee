"""``Verifier``: the runs of one verification, eager and compiled, and what is said of their differences."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch._functorch.config

from harness.errors import UsageError
from harness.graphs.capture import Capture
from harness.graphs.compilers import Compilers
from harness.graphs.differences import Difference, Tolerance, differences, different
from harness.graphs.front_ends import Compilation, FrontEnd
from harness.graphs.grounds import Grounds
from harness.graphs.observation import Moment, Observation, observe
from harness.graphs.refusals import Refusal
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


@dataclass(frozen=True, slots=True)
class Verifier:
    """The arguments of one verification, as ``verify_aot`` has checked them."""

    function: Callable[..., Any]
    grounds: Grounds
    compilers: Compilers
    dynamic: bool
    write: bool
    mutation_gradients: bool
    tolerance: Tolerance
    refusal: Refusal | None
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
        if self.refusal is not None:
            self.refusal.check(self._name(), self._eager, lambda: self._compiled(compilation))
            return Verified(tuple(capture.graphs), None)
        with torch.random.fork_rng():
            eager = self._eager()
        with self.front_end.run(number):
            compiled = self._compiled(compilation, eager.written)
        if self.grounds.are_made:
            require_equal_beginnings(eager.began, compiled.began)
        found = [*self._idle(capture, number, compiled), *differences(eager, compiled, self.tolerance)]
        if found:
            raise Differs(self._message(found, keep, number, capture), found)
        return Verified(tuple(capture.graphs), compiled.returned)

    def _eager(self) -> Observation:
        ground = self.grounds.make(self.function)
        try:
            written = None if self.mutation_gradients else ()
            observed = observe(ground.function, ground, write=self.write, written=written)
        except Exception as error:
            add_note(error, "This is the function itself, in eager: nothing was compiled yet.")
            raise
        require_known(observed.plain)
        return observed

    def _compiled(self, compilation: Compilation, written: Collection[str] = ()) -> Observation:
        ground = self.grounds.make(self.function)
        # A backward for each output keeps the buffers that a compiled backward would like to reuse.
        with torch._functorch.config.patch(debug_assert=self.debug_assert, donated_buffer=False):
            try:
                compiled = self.front_end.compile(ground.function, compilation)
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


def require_equal_beginnings(eager: Moment, compiled: Moment) -> None:
    """UsageError where a callable made other inputs for one side than for the other."""
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
    """Show ``note`` with ``error``."""
    if hasattr(error, "add_note"):
        error.add_note(note)
    else:
        append_to_message(error, note)
