"""Self-tests of harness.frames: threads and frames found in text, and whose code a frame is."""

from __future__ import annotations

import faulthandler
import tempfile
import unittest

from harness.frames import Frame, main_stack, through_users, traceback_frames, users_frame
from suites.selftest.report import samples


class MainStackTest(unittest.TestCase):
    """``main_stack``: the frames of the main thread."""

    def test_last_thread_of_a_dump_is_the_main_one(self) -> None:
        functions = [f.function for f in main_stack(samples.stack("barrier", 21))]
        self.assertEqual(functions, ["barrier", "wrapper", "test_sum", "run"])

    def test_c_frames_are_none_of_it(self) -> None:
        """From Python 3.14 on, a crash's dump ends with C frames; the main thread's are still Python's."""
        c_frames = '  Binary file "/usr/bin/python3.14", at Py_RunMain+0x3aa [0x73c4fa]\n'
        dump = (
            f"{samples.stack('barrier', 21)}\n"
            f"Current thread's C stack trace (most recent call first):\n{c_frames * 2}"
        )
        self.assertEqual(main_stack(dump), main_stack(samples.stack("barrier", 21)))

    def test_traceback_order_is_turned_round(self) -> None:
        frames = '  File "a.py", line 1, in outer\n  File "b.py", line 2, in inner\n'
        text = f"Thread 1 (most recent call last):\n{frames}"
        self.assertEqual([f.function for f in main_stack(text)], ["inner", "outer"])

    def test_text_without_frames(self) -> None:
        for text in (
            "",
            "no stack: the process was gone\n",
            "Current thread 0x1 (most recent call first):\n",
        ):
            with self.subTest(text=text):
                self.assertEqual(main_stack(text), ())

    def test_unknown_line(self) -> None:
        self.assertEqual(main_stack('  File "a.py", line ??? in f\n'), (Frame("a.py", 0, "f"),))

    def test_this_interpreters_own_dump(self) -> None:
        with tempfile.TemporaryFile("w+") as file:
            faulthandler.dump_traceback(file, all_threads=True)
            file.seek(0)
            frames = main_stack(file.read())
        self.assertEqual(frames[0].function, "test_this_interpreters_own_dump")
        self.assertTrue(frames[0].users)


class UsersFrameTest(unittest.TestCase):
    """``Frame.users``, ``users_frame`` and ``through_users``: the user's part of a stack."""

    def test_whose_code(self) -> None:
        """Standard library, installed packages and torch are not the user's code."""
        table = {
            "/home/me/suite/test_sum.py": True,
            "/home/me/torch/test_sum.py": True,
            "/opt/venv/lib/python3.11/site-packages/numpy/core.py": False,
            "/usr/lib/python3/dist-packages/yaml/__init__.py": False,
            "/usr/lib/python3.12/unittest/case.py": False,
            "/src/pytorch/torch/distributed/distributed_c10d.py": False,
            "/src/pytorch/torch/_dynamo/eval_frame.py": False,
            "/src/pytorch/torch/_tensor.py": False,
            "<frozen runpy>": False,
            unittest.__file__: False,
        }
        for file, users in table.items():
            with self.subTest(file=file):
                self.assertIs(Frame(file, 1, "f").users, users)

    def test_harness_is_not_the_users(self) -> None:
        self.assertFalse(Frame(main_stack.__code__.co_filename, 1, "f").users)

    def test_innermost_of_the_users(self) -> None:
        frame = users_frame(main_stack(samples.stack("barrier", 21)))
        self.assertIsNotNone(frame)
        assert frame is not None
        self.assertEqual(frame.place, "test_sum.py:21 in test_sum")
        self.assertIsNone(users_frame(()))

    def test_stack_is_cut_below_the_user(self) -> None:
        kept = through_users(main_stack(samples.stack("barrier", 21)))
        self.assertEqual([f.function for f in kept], ["barrier", "wrapper", "test_sum"])

    def test_recorder_below_a_collective_is_left_out(self) -> None:
        recorder = Frame(main_stack.__code__.co_filename, 116, "wait")
        users = Frame("/home/me/t.py", 1, "test_a")
        self.assertEqual(through_users((recorder, users, recorder)), (users,))

    def test_stack_without_user_is_whole(self) -> None:
        frames = (Frame("<frozen a>", 1, "f"), Frame("<frozen b>", 2, "g"))
        self.assertEqual(through_users(frames), frames)


class TracebackFramesTest(unittest.TestCase):
    """``traceback_frames``: the frames of a formatted exception."""

    def test_innermost_first(self) -> None:
        self.assertEqual([f.line for f in traceback_frames(samples.TRACEBACK)], [19])

    def test_only_the_exception_that_was_raised(self) -> None:
        cause = (
            'Traceback (most recent call last):\n  File "a.py", line 1, in f\nKeyError: 1\n\nDuring ...\n\n'
        )
        self.assertEqual([f.line for f in traceback_frames(cause + samples.TRACEBACK)], [19])


if __name__ == "__main__":
    unittest.main()
