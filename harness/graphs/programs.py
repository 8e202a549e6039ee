"""``ViewProgram``: a function of views and writes with its inputs, as source code that can be verified.

If the verification fails, the program is reduced to a smaller one that fails too, and the message ends with a
script that reproduces the failure without this module.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from harness.errors import UsageError
from harness.graphs.aot import verify_aot
from harness.graphs.python_expressions import NoExpression, expression_of
from harness.graphs.unrecorded_writes import unrecorded_writes
from harness.graphs.verified import VerificationResult

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

INDENT = "    "
# How many smaller programs are tried after a program has failed.
ATTEMPTS = 40
# Characters shown of an option that has no source form.
DESCRIBED = 80


@dataclass(frozen=True, slots=True, repr=False)
class ViewProgram:
    """A function and its inputs, as lines of Python.

    ``setup`` makes tensors; ``leaves`` and ``arguments`` are expressions over them. ``body`` are the
    function's statements over ``parameters``, and ``outputs`` the names that it returns.
    """

    setup: tuple[str, ...]
    leaves: tuple[str, ...]
    arguments: tuple[str, ...]
    parameters: tuple[str, ...]
    body: tuple[str, ...]
    outputs: tuple[str, ...]

    def __repr__(self) -> str:
        """The statements only; the message of a failure contains the whole script."""
        return f"<program of {len(self.body)} statements: {'; '.join(self.body)}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the program for hypothesis."""
        printer.text(repr(self))

    @property
    def source(self) -> str:
        """The source of the function ``f`` and of the callable ``inputs`` that makes its inputs."""
        lines = [
            f"def f({', '.join(self.parameters)}):",
            *(INDENT + line for line in self.body),
            f"{INDENT}return {_tuple(self.outputs)}",
            "",
            "def inputs():",
            *(INDENT + line for line in self.setup),
            f"{INDENT}return [{', '.join(self.leaves)}], [{', '.join(self.arguments)}]",
        ]
        return "\n".join(lines)

    def script(self, **options: Any) -> str:
        """A complete script that verifies this program with ``options`` of ``verify_aot``.

        An option that has no source form is left out, and a comment says which one to add.
        """
        imports: set[str] = set()
        given, missing = "", []
        for name, value in options.items():
            try:
                expression = expression_of(value)
            except NoExpression:
                missing.append(f"# Add {name}=, as the test has it: {_described(value)}")
                continue
            imports |= expression.imports
            given += f", {name}={expression.text}"
        head = ["import torch", "from harness.graphs import verify_aot", *sorted(imports)]
        return "\n".join([*head, "", self.source, "", *missing, f"verify_aot(f, inputs{given})", ""])

    def functions(self) -> tuple[Callable[..., Any], Callable[[], Any]]:
        """The functions ``f`` and ``inputs`` that the source defines."""
        name = f"<view program {hash(self.source):x}>"
        linecache.cache[name] = (len(self.source), None, self.source.splitlines(True), name)
        scope: dict[str, Any] = {"torch": torch}
        exec(compile(self.source, name, "exec"), scope)
        return scope["f"], scope["inputs"]

    def runs_in_eager(self) -> bool:
        """Whether eager can run the program and all its backwards.

        A backward in eager fails after a write to a tensor that was saved for it; a compiled function does
        not raise that error.
        """
        function, inputs = self.functions()
        try:
            _, arguments = inputs()
            for output in function(*arguments):
                if output.requires_grad:
                    output.sum().backward(retain_graph=True)
        except (RuntimeError, IndexError, NameError):  # NameError: a line was left out
            return False
        return True

    def without_backward(self) -> tuple[str, ...]:
        """The parameters that the function writes to, and through which eager's backward fails afterwards.

        Eager fails only for a caller who takes that backward. AOTAutograd traces it for all of them.
        """
        function, inputs = self.functions()
        _, arguments = inputs()
        versions = [argument._version for argument in arguments]
        function(*arguments)
        return tuple(
            name
            for name, argument, version in zip(self.parameters, arguments, versions, strict=True)
            if argument._version != version and argument.requires_grad and not _has_backward(argument)
        )

    def unrecorded_writes(self) -> tuple[str, ...]:
        """The parameters that the function writes to where autograd records nothing."""
        function, inputs = self.functions()
        return unrecorded_writes(function, inputs()[1], self.parameters)

    def verify(
        self, *, known: Callable[[Exception], bool] | None = None, **options: Any
    ) -> VerificationResult:
        """Run ``verify_aot`` with ``options``; AssertionError if it fails, for the smallest failing program.

        The message ends with that program's script, and the verification's error is its cause. A smaller
        program counts as failing if its error has the same type as this program's. An error for which
        ``known`` returns True is raised unchanged, and a program that fails with one does not count as
        failing. A UsageError is raised unchanged.
        """
        options.setdefault("test_mutation", True)
        found = self._tried(options)
        if isinstance(found, VerificationResult):
            return found
        if isinstance(found, UsageError) or (known is not None and known(found)):
            raise found

        def fails(program: ViewProgram) -> bool:
            error = program._tried(options)
            return type(error) is type(found) and not (known is not None and known(error))

        smallest = self.reduced(fails)
        error = smallest._tried(options)
        assert isinstance(error, Exception), f"the program does not fail twice: {error}"
        raise AssertionError(f"{error}\n\n{smallest.script(**options)}") from error

    def failure(self, **options: Any) -> Exception | None:
        """The error of the verification with ``options``, or None; nothing is reduced."""
        found = self._tried({"test_mutation": True, **options})
        return found if isinstance(found, Exception) else None

    def _tried(self, options: Mapping[str, Any]) -> VerificationResult | Exception:
        """The result of the verification, or the error that it raised."""
        function, inputs = self.functions()
        try:
            return verify_aot(function, inputs, **options)
        except Exception as error:  # noqa: BLE001  (whatever the compiler raises is what is looked for)
            return error

    def reduced(self, fails: Callable[[ViewProgram], bool], attempts: int = ATTEMPTS) -> ViewProgram:
        """The smallest program found that still ``fails``, by leaving out one line or output at a time.

        Hypothesis would shrink by drawing new programs, which takes many times as many attempts.
        """
        smallest, candidates = self, list(self.smaller())
        while candidates and attempts:
            attempts -= 1
            candidate = candidates.pop(0)
            if candidate.runs_in_eager() and fails(candidate):
                smallest, candidates = candidate, list(candidate.smaller())
        return smallest

    def smaller(self) -> Iterator[ViewProgram]:
        """The programs with one line or one output less; the last line is left out first."""
        for index in reversed(range(len(self.body))):
            yield replace(self, body=_without(self.body, index))
        for index in range(len(self.outputs)):
            if len(self.outputs) > 1:
                yield replace(self, outputs=_without(self.outputs, index))


def _has_backward(tensor: torch.Tensor) -> bool:
    """Whether the backward runs: it does not after a write to what was saved for it."""
    try:
        tensor.sum().backward(retain_graph=True)
    except RuntimeError:
        return False
    return True


def _without(items: tuple[str, ...], index: int) -> tuple[str, ...]:
    return items[:index] + items[index + 1 :]


def _tuple(names: Sequence[str]) -> str:
    return f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"


def _described(value: Any) -> str:
    return " ".join(repr(value).split())[:DESCRIBED]
