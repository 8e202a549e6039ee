"""Tests the plugin beside one that awaits asynchronous fixtures and tests, as pytest-asyncio does."""

from __future__ import annotations

import re
import unittest

from suites.selftest.pytest_plugin.runs import PytestCase

# A conftest that does what pytest-asyncio, which need not be installed for this, does in its mode ``auto``:
# it awaits asynchronous fixtures and tests on a loop of pytest's process.
AWAITING = """
import asyncio, inspect
import pytest

LOOP = asyncio.new_event_loop()

def pytest_addoption(parser):
    parser.addoption("--asyncio-mode")

@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef):
    made = fixturedef.func

    def value(**values):
        return LOOP.run_until_complete(made(**values))

    def value_until_end(**values):
        source = made(**values)
        yield LOOP.run_until_complete(anext(source))
        LOOP.run_until_complete(anext(source, None))

    if inspect.iscoroutinefunction(made):
        fixturedef.func = value
    if inspect.isasyncgenfunction(made):
        fixturedef.func = value_until_end

def pytest_pyfunc_call(pyfuncitem):
    names, function = pyfuncitem._fixtureinfo.argnames, pyfuncitem.obj
    if not inspect.iscoroutinefunction(function):
        return None
    LOOP.run_until_complete(function(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
"""


class AsynchronousTest(PytestCase):
    """Test functions and cases with ranks and without, in one file."""

    def test_asynchronous(self) -> None:
        """Ranks get what asynchronous fixtures give; an ``async def`` with ranks is an error, never a pass.

        The plugin that awaits would run it in pytest's process, without ranks.
        """
        self.write("conftest.py", AWAITING)
        self.write(
            "test_it.py",
            """
            import asyncio

            @pytest.fixture
            async def seven():
                return await asyncio.sleep(0, 7)

            @pytest.fixture
            async def until_end():
                yield await asyncio.sleep(0, 5)
                with open("ended", "a") as file:
                    file.write("x")

            @pytest.mark.ranks(2)
            def test_values(seven, until_end, rank_context):
                assert (seven, until_end) == (7, 5)
                assert asyncio.run(asyncio.sleep(0, rank_context.rank)) == rank_context.rank
                assert not os.path.exists("ended")

            @pytest.mark.ranks(2)
            async def test_async(seven):
                pass

            @pytest.mark.ranks(2)
            def test_fails(seven):
                assert seven == 5

            async def test_without_ranks(seven):
                assert seven == 7

            class OnRanks(MultiProcessTestCase):
                world_size = 2
                def setUp(self):
                    super().setUp()
                    self._spawn_processes()
                def test_ordinary(self):
                    assert asyncio.run(asyncio.sleep(0, 3)) == 3
                async def test_async(self):
                    pass

            class WithLoop(OnRanks, unittest.IsolatedAsyncioTestCase):
                pass

            class WithoutRanks(unittest.IsolatedAsyncioTestCase):
                async def test_it(self):
                    await asyncio.sleep(0)
            """,
        )
        run = self.pytest("-rA", "-p", "no:asyncio", "--asyncio-mode=auto")
        passed, failed = (
            set(re.findall(rf"(?m)^{word} test_it.py::(\S+)", run.out)) for word in ("PASSED", "FAILED")
        )
        self.assertEqual(
            passed, {"test_values", "test_without_ranks", "OnRanks::test_ordinary", "WithoutRanks::test_it"}
        )
        with_loop = {"WithLoop::test_async", "WithLoop::test_ordinary"}
        self.assertEqual(failed, {"test_async", "test_fails", "OnRanks::test_async", *with_loop}, run.out)
        # Each is its test's whole text, as nothing of the kind has ranks.
        for line in (
            r"test_async is an async def, .*call asyncio.run\)",
            r"an IsolatedAsyncioTestCase cannot run",
        ):
            self.assertEqual(len(re.findall(rf"(?m)^{line}", run.out)), 2, run.out)
        self.assertEqual(len(re.findall(r"cause: ", run.out)), 1, run.out)
        self.assertEqual(len(re.findall(r"reproduce: .* --asyncio-mode=auto\n", run.out)), 1)
        self.assertEqual((self.project / "ended").read_text(), "x")


if __name__ == "__main__":
    unittest.main()
