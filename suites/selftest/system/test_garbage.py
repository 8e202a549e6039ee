"""Tests the pause of garbage collections, in new processes: what is frozen here would stay so."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import unittest

HEAD = """
    import gc, weakref
    from harness.system import python_state
    from harness.system.garbage import GarbagePause, PAUSE

    class Cycle:
        def __init__(self):
            self.own = self

    def make(count):
        for _ in range(count):
            Cycle()
        return weakref.ref(Cycle())

    was = gc.get_threshold()
    """


class GarbagePauseTest(unittest.TestCase):
    """``GarbagePause``, by what becomes of garbage and of the settings of the collector."""

    def play(self, body: str) -> None:
        """Runs lines behind ``HEAD``; they have to end well."""
        code = textwrap.dedent(HEAD) + textwrap.dedent(body)
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_no_collection_in_a_pause(self) -> None:
        """Garbage stays while it lasts, and later collections leave it out; new garbage is collected."""
        self.play("""
            before = gc.get_stats()[0]["collections"]
            pause = GarbagePause()
            assert not pause.begun
            pause.begin()
            pause.begin()
            assert pause.begun
            old = make(5000)
            assert gc.get_stats()[0]["collections"] == before
            pause.end()
            assert not pause.begun
            assert gc.get_threshold() == was, gc.get_threshold()
            gc.collect()
            assert old() is not None
            new = make(5000)
            gc.collect()
            assert new() is None
            assert gc.get_stats()[0]["collections"] > before
            """)

    def test_what_is_not_frozen(self) -> None:
        """Without freezing, what has become garbage in the pause is collected after it."""
        self.play("""
            pause = GarbagePause()
            pause.begin()
            old = make(5000)
            assert old() is not None
            pause.end(freeze=False)
            assert gc.get_threshold() == was, gc.get_threshold()
            gc.collect()
            assert old() is None
            """)

    def test_settings_of_others(self) -> None:
        """What an imported module has set holds after the pause."""
        self.play("""
            pause = GarbagePause()
            pause.begin()
            gc.set_threshold(9, 8, 7)
            gc.disable()
            assert pause.thresholds() == (9, 8, 7)
            pause.end()
            assert gc.get_threshold() == (9, 8, 7)
            assert not gc.isenabled()
            """)

    def test_is_no_change_of_state(self) -> None:
        """A pause of this process is not taken for something that a module has changed."""
        self.play("""
            before = python_state.values()
            PAUSE.begin()
            in_pause = python_state.values()
            PAUSE.end()
            assert python_state.changed(in_pause, before) == ()
            assert python_state.changed(python_state.values(), in_pause) == ()
            gc.set_threshold(9)
            assert python_state.changed(python_state.values(), in_pause) != ()
            """)


if __name__ == "__main__":
    unittest.main()
