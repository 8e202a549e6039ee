"""What the compiler refuses, and with which words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from suites.aot.base import AotTestCase


class RefusalTestCase(AotTestCase):
    """A test of what is refused."""

    @contextmanager
    def refused(self, error: type[Exception], beginning: str, *words: str) -> Iterator[None]:
        """A region that raises ``error``, no subclass of it, with that beginning and all ``words`` in it."""
        with self.assertRaises(error) as caught:
            yield
        self.assertIs(type(caught.exception), error)
        message = str(caught.exception).strip()
        self.assertEqual(message[: len(beginning)], beginning)
        for each in words:
            self.assertIn(each, message)
