"""Parametrized tests: ``parametrize`` and what turns one generic method into a test method for each value.

The decorators put a function that yields ``Variant`` tuples on the method. Its attribute name and its
signature are those of torch's own parametrization, so decorators of both stack on each other, and the
``instantiate_*`` functions of both accept either. Generated tests get the same names as torch's own.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

__unittest = True  # For unittest, which then leaves this module's frames out of a failure's traceback.

Test = Callable[..., Any]
Decorator = Callable[[Test], Test]
Params = dict[str, Any]
F = TypeVar("F", bound=Test)
C = TypeVar("C", bound=type)

# The attribute of a parametrized method that torch's decorators and instantiate functions use too.
ATTRIBUTE = "parametrize_fn"


class Variant(NamedTuple):
    """One test to generate: it calls ``test`` with ``params``, and its name ends in ``suffix``.

    ``decorators(all_params)`` returns the decorators to apply, once all parameters of the test are known.
    """

    test: Test
    suffix: str
    params: Params
    decorators: Callable[[Params], Iterable[Decorator]]


Expansion = Callable[..., Iterable[tuple[Test, str, Params, Callable[[Params], Iterable[Decorator]]]]]


class Parametrizer:
    """Base class of the decorators; ``_parametrize_test`` yields the variants of a test.

    Decorators stacked on a method give every combination of their variants. In the generated name, the part
    of the topmost decorator comes first.
    """

    def _parametrize_test(self, test: Test, generic_cls: type, device_cls: type | None) -> Iterator[Variant]:
        """The variants of ``test``, a method of ``generic_cls``; ``device_cls`` is torch's, or None."""
        raise NotImplementedError

    def __call__(self, test: F) -> F:
        below = getattr(test, ATTRIBUTE, None)
        here = self._parametrize_test
        setattr(test, ATTRIBUTE, here if below is None else functools.partial(_product, below, here))
        return test


class subtest:
    """One entry of ``parametrize``'s values with a name or decorators of its own.

    ``arg_values`` is the value, or for several parameters the tuple of values. ``name`` replaces the part of
    the name that is made from values. ``decorators`` apply to the generated test alone, the first one first.
    """

    __slots__ = ("arg_values", "decorators", "name")

    def __init__(
        self, arg_values: Any, name: str | None = None, decorators: Iterable[Decorator] | None = None
    ) -> None:
        self.arg_values = arg_values
        self.name = name
        self.decorators = tuple(decorators or ())


class parametrize(Parametrizer):
    """Runs a test once for each entry of ``arg_values``.

    ``arg_str`` names the parameters, separated by commas: ``"x"``, ``"x,y"``. An entry is a value for one
    name, a tuple of values for several, or a ``subtest`` with either. The class needs the decorator
    ``instantiate_parametrized_tests``.

    A generated test is named ``<test>_<entry>``. The entry's part is the ``subtest``'s name, else
    ``name_fn(*values)``, else one part for each parameter, joined by ``_``: a dtype's or device's own name;
    ``<parameter>_<value>``, dots as underscores, for a bool, int, float or str; ``<parameter><position>``
    for any other value.

    ValueError where there are no entries, a name is not an identifier or is given twice, or an entry's length
    is not the number of names.
    """

    def __init__(
        self, arg_str: str, arg_values: Iterable[Any], name_fn: Callable[..., str] | None = None
    ) -> None:
        self.arg_names = tuple(name.strip() for name in arg_str.split(",") if name)
        _check_names(self.arg_names, arg_str)
        self.name_fn = name_fn
        # An iterator is read only once here, because a class may be instantiated for several devices.
        self.arg_values = tuple(self._entry(entry) for entry in arg_values)
        if self.arg_names and not self.arg_values:
            raise ValueError(
                f"parametrize({arg_str!r}): there are no values; was an iterator passed that is used up?"
            )

    def _entry(self, entry: Any) -> subtest:
        """``entry`` as a subtest with a tuple of one value for each name."""
        given = entry if isinstance(entry, subtest) else subtest(entry)
        values = (given.arg_values,) if len(self.arg_names) == 1 else tuple(given.arg_values)
        if len(values) != len(self.arg_names):
            raise ValueError(
                f"parametrize({', '.join(self.arg_names)!r}): {len(self.arg_names)} names, "
                f"but {len(values)} values in {given.arg_values!r}"
            )
        return subtest(values, given.name, given.decorators)

    def _parametrize_test(self, test: Test, generic_cls: type, device_cls: type | None) -> Iterator[Variant]:
        if not self.arg_names:
            yield Variant(test, "", {}, _no_decorators)
            return
        for position, entry in enumerate(self.arg_values):
            params = dict(zip(self.arg_names, entry.arg_values, strict=True))
            yield Variant(test, self._suffix(position, entry), params, _always(entry.decorators))

    def _suffix(self, position: int, entry: subtest) -> str:
        if entry.name:
            return entry.name
        if self.name_fn is not None:
            return self.name_fn(*entry.arg_values)
        named = zip(self.arg_names, entry.arg_values, strict=True)
        return "_".join(_value_name(name, value, position) for name, value in named)


class reparametrize(Parametrizer):
    """Changes the variants that ``parametrizer`` yields.

    ``adapter_fn(suffix, params)`` returns the ``(suffix, params)`` pairs that replace one variant. A None
    among the pairs is left out; None in place of the pairs drops the variant.
    """

    def __init__(
        self,
        parametrizer: Parametrizer,
        adapter_fn: Callable[[str, Params], Iterable[tuple[str, Params] | None] | None],
    ) -> None:
        self.parametrizer = parametrizer
        self.adapter_fn = adapter_fn

    def _parametrize_test(self, test: Test, generic_cls: type, device_cls: type | None) -> Iterator[Variant]:
        for variant in self.parametrizer._parametrize_test(test, generic_cls, device_cls):
            base = Variant(*variant)
            for adapted in self.adapter_fn(base.suffix, base.params) or ():
                if adapted is not None:
                    suffix, params = adapted
                    yield base._replace(suffix=suffix, params=params)


class decorateIf(Parametrizer):
    """Applies ``decorator`` to the generated tests for whose parameters ``predicate_fn(params)`` is true."""

    def __init__(self, decorator: Decorator, predicate_fn: Callable[[Params], bool]) -> None:
        self.decorator = decorator
        self.predicate_fn = predicate_fn

    def _parametrize_test(self, test: Test, generic_cls: type, device_cls: type | None) -> Iterator[Variant]:
        yield Variant(test, "", {}, self._decorators)

    def _decorators(self, params: Params) -> list[Decorator]:
        return [self.decorator] if self.predicate_fn(params) else []


def instantiate_parametrized_tests(generic_cls: C) -> C:
    """Class decorator: replaces the parametrized tests of ``generic_cls`` by the generated ones.

    A generated test is an ordinary method: ``getattr(cls, name)`` finds it in any process that imports the
    module. It has the docstring and attributes of the generic test, and that test as its ``__wrapped__``.
    Parametrized tests inherited from a class that was not instantiated, a mixin say, are generated as well.

    ValueError where two tests of the class would have the same name.
    """
    for name in dir(generic_cls):
        generic = getattr(generic_cls, name)
        if hasattr(generic, ATTRIBUTE):
            _instantiate(generic_cls, name, generic)
    return generic_cls


def require_instantiated(cls: type, name: str) -> None:
    """ValueError where ``name`` is a parametrized test of ``cls`` whose variants were never generated.

    A test that torch generated has the attribute too, but its ``__name__`` is still the generic test's.
    """
    test = getattr(cls, name, None)
    if hasattr(test, ATTRIBUTE) and getattr(test, "__name__", name) == name:
        raise ValueError(
            f"{cls.__name__}.{name} is parametrized, but {cls.__name__} was not instantiated: "
            f"put @instantiate_parametrized_tests above the class"
        )


def _instantiate(cls: type, name: str, generic: Test) -> None:
    if name in vars(cls):
        delattr(cls, name)
    else:
        # The generic test stays in its base class; None hides it from unittest's loader in this class.
        setattr(cls, name, None)
    expansion: Expansion = getattr(generic, ATTRIBUTE)
    for variant in expansion(generic, generic_cls=cls, device_cls=None):
        _add(cls, Variant(*variant))


def _add(cls: type, variant: Variant) -> None:
    name = f"{variant.test.__name__}_{variant.suffix}"
    if hasattr(cls, name):
        raise ValueError(
            f"{cls.__name__} has two tests {name}: name the values apart, by name_fn or subtest(name=...)"
        )
    decorators = tuple(variant.decorators(variant.params))
    # Some decorators, expectedFailure for one, mark the function itself, which is shared by all variants
    # (related: testing-cabal/testtools#82).
    test = _copied(variant.test) if decorators else variant.test
    for decorator in decorators:
        test = decorator(test)
    setattr(cls, name, _bound_to(test, variant.params, cls, name))


def _bound_to(test: Test, params: Params, cls: type, name: str) -> Test:
    def called(self: Any) -> Any:
        __tracebackhide__ = True
        return test(self, **params)

    async def awaited(self: Any) -> Any:
        return await test(self, **params)

    # A coroutine function stays one, for those who have to know before they call it.
    instantiated = functools.wraps(test)(awaited if inspect.iscoroutinefunction(test) else called)
    instantiated.__name__ = name
    instantiated.__qualname__ = f"{cls.__qualname__}.{name}"
    instantiated.__module__ = cls.__module__
    vars(instantiated).pop(ATTRIBUTE, None)
    return instantiated


def _copied(test: Test) -> Test:
    @functools.wraps(test)
    def copy(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return test(*args, **kwargs)

    return copy


def _product(
    below: Expansion, above: Expansion, test: Test, generic_cls: type, device_cls: type | None
) -> Iterator[Variant]:
    """Every combination of the variants of two decorators; ``below`` is the one nearer to the function."""
    for first in map(_variant, below(test, generic_cls, device_cls)):
        for second in map(_variant, above(first.test, generic_cls, device_cls)):
            twice = first.params.keys() & second.params.keys()
            if twice:
                raise ValueError(f"{test.__name__}: {', '.join(sorted(twice))} is parametrized twice")
            yield Variant(
                second.test,
                "_".join(part for part in (second.suffix, first.suffix) if part),
                {**first.params, **second.params},
                functools.partial(_both, first.decorators, second.decorators),
            )


def _variant(yielded: tuple[Any, ...]) -> Variant:
    """The ``Variant`` for what a parametrizer yields; torch's yield plain tuples in the same order."""
    return Variant(*yielded)


def _both(
    first: Callable[[Params], Iterable[Decorator]],
    second: Callable[[Params], Iterable[Decorator]],
    params: Params,
) -> list[Decorator]:
    return [*first(params), *second(params)]


def _always(decorators: tuple[Decorator, ...]) -> Callable[[Params], tuple[Decorator, ...]]:
    return lambda params: decorators


def _no_decorators(params: Params) -> tuple[Decorator, ...]:
    return ()


def _check_names(names: tuple[str, ...], arg_str: str) -> None:
    for name in names:
        if not name.isidentifier():
            raise ValueError(f"parametrize({arg_str!r}): {name!r} is no parameter name")
    if len(set(names)) != len(names):
        raise ValueError(f"parametrize({arg_str!r}): a name comes twice")


def _value_name(name: str, value: Any, position: int) -> str:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    if torch is not None and isinstance(value, torch.device):
        return str(value)
    # torch's operator and module records, known by name because their module is private and slow to import.
    if type(value).__name__ in ("OpInfo", "ModuleInfo"):
        return str(value.formatted_name)
    if isinstance(value, (int, float, str)):
        return f"{name}_{str(value).replace('.', '_')}"
    return f"{name}{position}"
