"""``ViewProgram``: a function of views and writes, and what makes its inputs, both as source.

A program that fails is made smaller by itself, and the message ends with a script that shows the failure
without this module.
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
from harness.graphs.verified import Verified

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

INDENT = "    "
# How many smaller programs are tried, once one has failed.
ATTEMPTS = 40
# Characters of an option that cannot be written.
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
        """The statements alone; a failure has the whole script."""
        return f"<program of {len(self.body)} statements: {'; '.join(self.body)}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """As hypothesis prints it."""
        printer.text(repr(self))

    @property
    def source(self) -> str:
        """The function ``f`` and the callable ``inputs`` that makes its leaves and arguments."""
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
        """A program of its own that verifies this one with ``options`` of ``verify_aot``.

        An option that cannot be written as source is left out, and a comment says what to put there.
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
        """``f`` and ``inputs``."""
        name = f"<view program {hash(self.source):x}>"
        linecache.cache[name] = (len(self.source), None, self.source.splitlines(True), name)
        scope: dict[str, Any] = {"torch": torch}
        exec(compile(self.source, name, "exec"), scope)
        return scope["f"], scope["inputs"]

    def runs_in_eager(self) -> bool:
        """Whether eager can run the program and all its backwards.

        A write to what a backward has saved makes an error of the backward; no compiled function raises it.
        """
        function, inputs = self.functions()
        try:
            _, arguments = inputs()
            for output in function(*arguments):
                if output.requires_grad:
                    output.sum().backward(retain_graph=True)
        except (RuntimeError, IndexError, NameError):  # the last where a line was left out
            return False
        return True

    def verify(self, *, known: Callable[[Exception], bool] | None = None, **options: Any) -> Verified:
        """``verify_aot`` with ``options``; AssertionError, by the same error of the smallest program found.

        Its message ends with that program's script. A program is as bad as this one where its error is of
        the same type. An error that is ``known`` is raised as it is, and no program that fails with one is
        taken for a smaller one; a UsageError is raised as it is.
        """
        options.setdefault("test_mutation", True)
        found = self._tried(options)
        if isinstance(found, Verified):
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

    def _tried(self, options: Mapping[str, Any]) -> Verified | Exception:
        """What came of the verification."""
        function, inputs = self.functions()
        try:
            return verify_aot(function, inputs, **options)
        except Exception as error:  # noqa: BLE001  (whatever the compiler raises is what is looked for)
            return error

    def reduced(self, fails: Callable[[ViewProgram], bool], attempts: int = ATTEMPTS) -> ViewProgram:
        """The smallest program found that still ``fails``, by leaving out one line or output at a time.

        Hypothesis shrinks by drawing anew, in many times as many attempts.
        """
        smallest, candidates = self, list(self._smaller())
        while candidates and attempts:
            attempts -= 1
            candidate = candidates.pop(0)
            if candidate.runs_in_eager() and fails(candidate):
                smallest, candidates = candidate, list(candidate._smaller())
        return smallest

    def _smaller(self) -> Iterator[ViewProgram]:
        """The programs with one line or one output less, from the last on."""
        for index in reversed(range(len(self.body))):
            yield replace(self, body=_without(self.body, index))
        for index in range(len(self.outputs)):
            if len(self.outputs) > 1:
                yield replace(self, outputs=_without(self.outputs, index))


def _without(items: tuple[str, ...], index: int) -> tuple[str, ...]:
    return items[:index] + items[index + 1 :]


def _tuple(names: Sequence[str]) -> str:
    return f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"


def _described(value: Any) -> str:
    return " ".join(repr(value).split())[:DESCRIBED]
