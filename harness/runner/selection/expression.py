"""``-E``: which tests run, as a boolean expression over what is known of each; the parser and its meaning.

::

    suite(c10d) & ranks(>=4) & !slow | failed(last)

``!`` binds before ``&``, and ``&`` before ``|``. Nothing here reads a file: the ids of tests
that have failed come from the caller.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from harness.configuration.similar import perhaps
from harness.errors import UsageError
from harness.runner.scheduling.unit import Unit
from harness.runner.selection.named_tests import covers, matches

# What is asked of a test, beside the ids of those that failed in the last run.
_Test = Callable[[Unit, Collection[str]], bool]
# What is known of all tests of a module before it is imported: None where that may differ.
_Module = Callable[[str], bool | None]

_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "": operator.eq,
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_WORD = re.compile(r"[A-Za-z_]+")
LAST = "last"


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression, or a part of one. ``reads_last`` is set where it asks which tests failed last."""

    test: _Test
    module: _Module
    reads_last: bool = False

    def takes(self, unit: Unit, failed: Collection[str]) -> bool:
        """True where the test is one of those; ``failed`` are the ids that failed in the last run.

        What stands in for a module is taken wherever one of the module's tests could be.
        """
        return self.may_take(unit.module) if unit.stands_in else self.test(unit, failed)

    def may_take(self, module: str) -> bool:
        """False where no test of the module can be one of those."""
        return self.module(module) is not False


def parse(text: str) -> Expression:
    """The meaning of an expression. UsageError, with the column and a mark below it, where it has none."""
    parser = _Parser(text)
    found = parser.either()
    if parser.rest():
        raise parser.error(f"expected & or | before {parser.rest()[0]!r}")
    return found


def any_of(texts: Iterable[str]) -> Expression | None:
    """The tests that any of the expressions takes; None without expressions, which is no limit."""
    parsed = [parse(text) for text in texts]
    return _joined(parsed, any, True) if parsed else None


# -- meaning


def _joined(parts: list[Expression], joined: Callable[[Iterable[bool]], bool], decisive: bool) -> Expression:
    """All or any of the parts; for a module one that is ``decisive`` decides, else all have to be known."""

    def of_module(module: str) -> bool | None:
        found = [part.module(module) for part in parts]
        return decisive if decisive in found else None if None in found else not decisive

    return Expression(
        lambda unit, failed: joined(part.test(unit, failed) for part in parts),
        of_module,
        any(part.reads_last for part in parts),
    )


def _negated(part: Expression) -> Expression:
    def of_module(module: str) -> bool | None:
        known = part.module(module)
        return None if known is None else not known

    return Expression(lambda unit, failed: not part.test(unit, failed), of_module, part.reads_last)


def _of_test(test: Callable[[Unit], bool]) -> Expression:
    return Expression(lambda unit, _: test(unit), lambda _: None)


def _of_module(pattern: str) -> Expression:
    return Expression(lambda unit, _: covers(pattern, unit.module), lambda module: covers(pattern, module))


def _compared(number: Callable[[Unit], int]) -> Callable[[str], Expression]:
    def of_text(text: str) -> Expression:
        found = re.fullmatch(r"(|==?|!=|[<>]=?)\s*(\d+)", text)
        if found is None:
            raise ValueError(f"{text!r} is no comparison: write 4, >=4, <4 or !=4")
        compare, wanted = _COMPARISONS[found[1]], int(found[2])
        return _of_test(lambda unit: compare(number(unit), wanted))

    return of_text


def _failed(text: str) -> Expression:
    if text != LAST:
        raise ValueError(f"{text!r} is no run: write failed({LAST})")
    return Expression(lambda unit, failed: unit.id in failed, lambda _: None, reads_last=True)


WITH_ARGUMENT: dict[str, Callable[[str], Expression]] = {
    "suite": _of_module,
    "module": _of_module,
    "class": lambda pattern: _of_test(lambda unit: covers(pattern, unit.case)),
    "test": lambda pattern: _of_test(lambda unit: matches(pattern, unit.id)),
    "ranks": _compared(lambda unit: unit.demand.ranks),
    "slots": _compared(lambda unit: unit.demand.cpu_slots),
    "accelerators": _compared(lambda unit: unit.demand.accelerators),
    "memory": _compared(lambda unit: unit.demand.memory_mb),
    "failed": _failed,
}
ALONE: dict[str, Expression] = {
    "all": Expression(lambda unit, failed: True, lambda module: True),
    "slow": _of_test(lambda unit: unit.slow),
    "exclusive": _of_test(lambda unit: unit.demand.exclusive),
}


# -- the parser


class _Parser:
    """Reads an expression from left to right; ``at`` is the place that comes next, counted from 0."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def rest(self) -> str:
        """What has not been read, without leading space."""
        self._at += len(self._text[self._at :]) - len(self._text[self._at :].lstrip())
        return self._text[self._at :]

    def error(self, message: str, at: int | None = None) -> UsageError:
        """The error at a place, the present one by default, as a line, the text, and a mark below it."""
        at = self._at if at is None else at
        return UsageError(f"-E: column {at + 1}: {message}\n  {self._text}\n  {' ' * at}^")

    def either(self) -> Expression:
        """Reads terms with ``|`` between them."""
        return self._series("|", self._both, any, True)

    def _both(self) -> Expression:
        return self._series("&", self._one, all, False)

    def _series(
        self,
        sign: str,
        part: Callable[[], Expression],
        joined: Callable[[Iterable[bool]], bool],
        decisive: bool,
    ) -> Expression:
        parts = [part()]
        while self._took(sign):
            parts.append(part())
        return parts[0] if len(parts) == 1 else _joined(parts, joined, decisive)

    def _one(self) -> Expression:
        if self._took("!"):
            return _negated(self._one())
        if self.rest().startswith("("):
            opened = self._at
            self._took("(")
            inner = self.either()
            if not self._took(")"):
                raise self.error("this ( is not closed", opened)
            return inner
        return self._predicate()

    def _predicate(self) -> Expression:
        word = _WORD.match(self.rest())
        known = (*WITH_ARGUMENT, *ALONE)
        if word is None:
            there = f"before {self.rest()[0]!r}" if self.rest() else "at the end"
            raise self.error(f"expected a condition {there}: one of {', '.join(known)}")
        name, began = word[0], self._at
        if name not in known:
            listed = f"there are {', '.join(known)}"
            raise self.error(f"unknown condition {name}{perhaps(name, known, listed)}")
        self._at += len(name)
        if name in ALONE:
            return ALONE[name]
        if not self.rest().startswith("("):
            raise self.error(f"{name} needs an argument: {name}(...)", began)
        return self._with_argument(name)

    def _with_argument(self, name: str) -> Expression:
        opened, depth = self._at, 0
        for place in range(opened, len(self._text)):
            depth += {"(": 1, ")": -1}.get(self._text[place], 0)
            if depth == 0:
                break
        else:
            raise self.error("this ( is not closed", opened)
        argument = self._text[opened + 1 : place].strip()
        if not argument:
            raise self.error(f"{name} needs an argument: {name}(...)", opened)
        try:
            found = WITH_ARGUMENT[name](argument)
        except ValueError as error:
            raise self.error(str(error), opened + 1) from None
        self._at = place + 1
        return found

    def _took(self, sign: str) -> bool:
        if not self.rest().startswith(sign):
            return False
        self._at += 1
        return True
