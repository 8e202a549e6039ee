"""Hypothesis strategies for the runner's property tests: units, timings and demands."""

from __future__ import annotations

from hypothesis import strategies as st

from harness.runner.scheduling.timings import Timings, import_key
from harness.runner.scheduling.unit import Demand, Unit, of_id
from harness.runner.worker_process.warm_up import warm_up_key

MODULES = ("suites.a.test_one", "suites.a.test_two", "suites.b.test_one", "test_top")
CASES = ("First", "Second", "Outer.Inner")

demands = st.builds(
    Demand,
    ranks=st.integers(1, 8),
    cpu_slots=st.integers(1, 6),
    accelerators=st.integers(0, 2),
    memory_mb=st.sampled_from((0, 100, 5000)),
    exclusive=st.booleans(),
)
seconds = st.floats(min_value=0, max_value=100) | st.just(0.0)


@st.composite
def units(draw: st.DrawFn, max_size: int = 40) -> list[Unit]:
    """Draws units with distinct ids in a few modules and classes."""
    keys = st.tuples(st.sampled_from(MODULES), st.sampled_from(CASES), st.integers(0, 30))
    chosen = draw(st.lists(keys, unique=True, max_size=max_size))
    return [of_id(f"{module}.{case}.test_{n}", module) for module, case, n in chosen]


@st.composite
def timings(draw: st.DrawFn, of: list[Unit]) -> Timings:
    """Draws timings of some of the units, of tests that no longer exist, and of some fixtures."""
    ids = [unit.id for unit in of] + ["suites.a.test_one.First.test_gone", "suites.gone.test_x.Case.test_y"]
    keys = (*map(import_key, MODULES), *map(warm_up_key, MODULES))
    fixtures = [*MODULES, *keys, *(f"{m}.{c}" for m in MODULES for c in CASES)]
    return Timings(
        draw(st.dictionaries(st.sampled_from(ids), seconds)),
        draw(st.dictionaries(st.sampled_from(fixtures), st.floats(min_value=0, max_value=20), max_size=5)),
    )
