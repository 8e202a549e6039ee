"""Attaches requirements to tests, reads them back, and enforces them when a test is called.

A decorated function is replaced by a new one, which carries a tuple that is longer by one requirement and
which checks that requirement before it calls the test. A decorated class carries the longer tuple itself,
and computes its `__unittest_skip__` when unittest reads it.

Nothing is checked at decoration: a module of decorated tests loads without a probe and without torch. A
requirement that depends on the world size is checked where the world size is known: by
`skip_reason(test)` in the parent before it launches ranks, and by the decorated function when it is
called, in a rank or elsewhere.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import unittest
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, cast

from harness.requirements import probes
from harness.requirements.kinds import Importable, Requirement, WorldSizeDemand
from harness.requirements.machine import MachineFacts, RunFacts, run_facts_from, wishes_from
from harness.requirements.merged import Requirements, merge, unmet
from harness.requirements.scheduling import Slow

ATTRIBUTE = "__harness_requirements__"

Test = TypeVar("Test", bound=Callable[..., Any])


def require(requirement: Requirement) -> Callable[[Test], Test]:
    """A decorator that puts one requirement on a test method or a test class.

    It works above and below other decorators, as long as those use functools.wraps. It raises ValueError for
    something that cannot be called.
    """

    def decorate(test: Test) -> Test:
        if inspect.isclass(test):
            return cast(Test, _require_of_class(test, requirement))
        if not callable(test):
            raise ValueError(f"{test!r} is no test; put the decorator on a test method or a test class")
        return cast(Test, _require_of_function(test, requirement))

    return decorate


def requirements_of(owner: object, method_name: str) -> Requirements:
    """The requirements of one test: those of its method, of its class, and of the bases of its class.

    `owner` is a test class, or an instance of one. Requirements on a base class hold for every subclass, but
    a method that overrides another has its own requirements only. The attributes that PyTorch's own
    decorators set (`slow_test`, `_required_world_size`) count too. Runs nothing and imports nothing.
    ValueError where `owner` has no such method.
    """
    cls = owner if isinstance(owner, type) else type(owner)
    method = getattr(owner, method_name, None)
    if method is None:
        raise ValueError(f"{cls.__qualname__} has no test {method_name!r}; name one of its methods")
    return merge(_on_function(method), _on_class(cls))


def skip_reason(test: unittest.TestCase) -> str | None:
    """Why this test skips on this machine, or None where it runs.

    A base class calls this before it launches ranks. The world size is `test.world_size` where that is a
    positive number, else `WORLD_SIZE`. What only the process that runs the test can find out (the answer of a
    driver, an import that fails half-way) is not checked here; the decorator checks it when the test is
    called.
    """
    requirements = requirements_of(test, _method_name(test))
    if not requirements.items:
        return None
    counts = any(item.needs_world_size for item in requirements.items)
    run_facts = _run_facts_of(test) if counts else wishes_from(os.environ)
    return unmet(requirements, _facts_outside(requirements), run_facts)


def get_required_world_size(obj: object, default: int) -> int:
    """The world size that the test which `obj` runs now demands, or `default` where it demands none."""
    name = _method_name(obj)
    if not hasattr(obj, name):
        return default
    demanded = requirements_of(obj, name).world_size
    return default if demanded is None else demanded


def get_required_hosts(obj: object) -> int:
    """The least number of hosts on which the ranks of the test that `obj` runs now have to be."""
    name = _method_name(obj)
    return requirements_of(obj, name).hosts if hasattr(obj, name) else 1


def _require_of_function(function: Callable[..., Any], requirement: Requirement) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def judged_async(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            return await function(*args, **kwargs) if _may_run(requirement, function, args) else None

        wrapper: Callable[..., Any] = judged_async
    else:

        @functools.wraps(function)
        def judged(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            return function(*args, **kwargs) if _may_run(requirement, function, args) else None

        wrapper = judged
    setattr(wrapper, ATTRIBUTE, (*getattr(function, ATTRIBUTE, ()), requirement))
    return wrapper


def _may_run(requirement: Requirement, function: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    """Whether to run the test; where not, the test passes without running. Raises SkipTest for a skip."""
    test = args[0] if args else None
    reason = _reason_here(requirement, test)
    if reason is None:
        return True
    if requirement.passes_in_sandcastle and wishes_from(os.environ).sandcastle:
        print(f"{function.__qualname__} passes without running: {reason}", file=sys.stderr)
        return False
    handler = getattr(test, "_handle_test_skip", None) if requirement.skip_handled_by_test else None
    if handler is None:
        raise unittest.SkipTest(reason)
    handler(reason)
    return False


def _reason_here(requirement: Requirement, test: object) -> str | None:
    """Why the requirement is not met in the process that is about to run the test; None where it is met."""
    run_facts = _run_facts_of(test) if requirement.needs_world_size else wishes_from(os.environ)
    reason = requirement.unmet(_facts_inside(requirement), run_facts)
    if reason is None and requirement.needs_world_size and run_facts.world_size is None:
        raise ValueError(
            f"a test that {requirement.reason} must know its world size, and nothing here says it; "
            f"give the test a world_size attribute, or set WORLD_SIZE"
        )
    return reason


def _facts_inside(requirement: Requirement) -> MachineFacts:
    facts = _facts(requirement)
    if requirement.needs_driver and facts.devices("cuda"):
        return replace(facts, multicast=probes.multicast_here())
    if isinstance(requirement, Importable):
        imports = probes.module_imports(requirement.module, requirement.names)
        return replace(facts, modules=((requirement.module, imports),))
    return facts


def _facts_outside(requirements: Requirements) -> MachineFacts:
    return probes.probe_modules(_facts(requirements), requirements.imports)


def _facts(needed: Requirement | Requirements) -> MachineFacts:
    return probes.probe() if needed.needs_torch else probes.probe_system()


def _run_facts_of(test: object) -> RunFacts:
    size, backend = getattr(test, "world_size", None), getattr(test, "backend", None)
    known = int(size) if isinstance(size, int | str) and str(size).isdecimal() else None
    return run_facts_from(
        os.environ, world_size=known or None, backend=backend if isinstance(backend, str) else None
    )


def _method_name(test: object) -> str:
    current = getattr(test, "_current_test_name", None)
    return str(current() if callable(current) else getattr(test, "_testMethodName", ""))


def _on_function(method: object) -> tuple[Requirement, ...]:
    """The requirements on a function, the outermost first, with those from PyTorch's own decorators."""
    own: tuple[Requirement, ...] = tuple(reversed(getattr(method, ATTRIBUTE, ())))
    size = getattr(method, "_required_world_size", None)
    if isinstance(size, int) and not any(isinstance(item, WorldSizeDemand) for item in own):
        own += (WorldSizeDemand(size=size, reason=f"runs on {size} ranks"),)
    if getattr(method, "slow_test", False) and not any(isinstance(item, Slow) for item in own):
        own += (Slow(reason="is marked slow"),)
    return own


@functools.lru_cache(maxsize=64)
def _on_class(cls: type) -> tuple[Requirement, ...]:
    """The requirements on a class and its bases, the outermost first and a class before its bases."""
    return tuple(item for klass in cls.__mro__ for item in reversed(klass.__dict__.get(ATTRIBUTE, ())))


class _LazySkip:
    """A descriptor for a class's `__unittest_skip__` or `__unittest_skip_why__`, computed when it is read.

    With it a requirement on a class skips the whole class before its setUpClass, without a probe at
    decoration, and a subclass inherits the requirement even where it overrides setUp.
    """

    def __init__(self, of_reason: Callable[[str | None], object]) -> None:
        self._of_reason = of_reason

    def __get__(self, instance: object, owner: type) -> object:
        requirements = merge((), _on_class(owner))
        facts = _facts_outside(requirements)
        # Only an instance knows its world size. A class cannot pass without running, so no sandcastle either.
        run_facts = replace(wishes_from(os.environ), sandcastle=False)
        return self._of_reason(unmet(requirements, facts, run_facts))


def _require_of_class(cls: type, requirement: Requirement) -> type:
    setattr(cls, ATTRIBUTE, (*cls.__dict__.get(ATTRIBUTE, ()), requirement))
    _on_class.cache_clear()
    # A class that unittest.skip skips stays as it is; one that has the descriptors needs no second pair.
    if not inspect.getattr_static(cls, "__unittest_skip__", False):
        cls.__unittest_skip__ = _LazySkip(lambda reason: reason is not None)  # type: ignore[attr-defined]
        cls.__unittest_skip_why__ = _LazySkip(lambda reason: reason or "")  # type: ignore[attr-defined]
    if requirement.needs_world_size or requirement.needs_driver:
        _judge_in_set_up(cls, requirement)
    return cls


def _judge_in_set_up(cls: type, requirement: Requirement) -> None:
    set_up = getattr(cls, "setUp", None)
    if set_up is None:
        raise ValueError(f"{cls.__qualname__} is no unittest.TestCase; put the decorator on its methods")

    @functools.wraps(set_up)
    def judged_set_up(self: unittest.TestCase) -> Any:
        __tracebackhide__ = True
        reason = _reason_here(requirement, self)
        if reason is not None:
            raise unittest.SkipTest(reason)
        return set_up(self)

    cls.setUp = judged_set_up  # type: ignore[attr-defined]
