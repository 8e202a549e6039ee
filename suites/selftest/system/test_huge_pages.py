"""Tests which memory is collapsed into huge pages, and that its content stays."""

from __future__ import annotations

import ctypes
import mmap
import types
import unittest
from unittest import mock

from harness.system import huge_pages

MB = 1 << 20
HUGE = 2 * MB
SIZE = 8 * MB


class CollapseTest(unittest.TestCase):
    """``collapse`` in a process with a mapping that is large enough for huge pages."""

    def mapping(self, flags: int = mmap.MAP_PRIVATE) -> range:
        """Returns the addresses of a new anonymous mapping, which is ``made``."""
        made = mmap.mmap(-1, SIZE, flags=flags | mmap.MAP_ANONYMOUS)
        self.addCleanup(made.close)
        self.made = made
        start = ctypes.addressof(ctypes.c_char.from_buffer(made))
        return range(start, start + SIZE)

    def advised(self, answer: int = 0) -> tuple[int, list[tuple[int, int, int]]]:
        """Returns what ``collapse`` returns and its calls of madvise (start, size, advice), which all get
        one answer.
        """
        calls: list[tuple[int, int, int]] = []

        def madvise(address: ctypes.c_void_p, size: ctypes.c_size_t, advice: int) -> int:
            calls.append((address.value or 0, size.value, advice))
            return answer

        library = types.SimpleNamespace(madvise=madvise)
        with mock.patch.object(ctypes, "CDLL", return_value=library):
            return huge_pages.collapse(), calls

    def test_whole_huge_pages(self) -> None:
        """Of a private mapping the part that consists of whole huge pages is collapsed."""
        own = self.mapping()
        done, calls = self.advised()
        self.assertTrue(calls)
        for start, size, _ in calls:
            self.assertEqual((start % HUGE, size % HUGE), (0, 0))
            self.assertGreater(size, 0)
        covered = sum(len(range(max(s, own[0]), min(s + n, own[-1] + 1))) for s, n, _ in calls[::2])
        self.assertIn(covered, (SIZE, SIZE - HUGE))
        self.assertEqual(done, sum(size for _, size, _ in calls[::2]))
        self.assertEqual(calls[::2], [(s, n, 14) for s, n, _ in calls[1::2]])  # MADV_HUGEPAGE comes first
        self.assertEqual({advice for *_, advice in calls[1::2]}, {25})  # then MADV_COLLAPSE

    def test_shared_memory(self) -> None:
        """Memory that is shared with other processes is left alone."""
        own = self.mapping(flags=mmap.MAP_SHARED)
        _, calls = self.advised()
        self.assertEqual([s for s, n, _ in calls if s <= own[0] < s + n or own[0] <= s < own[-1]], [])

    def test_kernel_that_cannot(self) -> None:
        """A kernel that refuses is asked once for each part, and nothing counts as collapsed."""
        self.mapping()
        done, calls = self.advised(answer=-1)
        self.assertEqual(done, 0)
        self.assertEqual({advice for *_, advice in calls}, {14})

    def test_content(self) -> None:
        """Collapsed memory has the content that it had."""
        self.mapping()
        content = bytes(range(256)) * (SIZE // 256)
        self.made[:] = content
        self.assertGreaterEqual(huge_pages.collapse(), 0)
        self.assertEqual(self.made[:], content)


if __name__ == "__main__":
    unittest.main()
