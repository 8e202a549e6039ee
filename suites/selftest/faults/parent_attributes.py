"""Cases whose fixtures set attributes in the parent that their tests read in the ranks."""

from __future__ import annotations

import unittest

from harness import MultiProcessTestCase


class SetsOfClass(unittest.TestCase):
    """A case of one process, to be mixed in."""

    from_set_up_class: int

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.from_set_up_class = 1

    @classmethod
    def tearDownClass(cls) -> None:
        super().tearDownClass()
        del cls.from_set_up_class

    def test_of_class(self) -> None:
        self.assertEqual(self.from_set_up_class, 1)


class Mixed(SetsOfClass, MultiProcessTestCase):
    """Two ranks that lack what a mixin sets for the class."""

    world_size = 2


class Fixtures(Mixed):
    """Two ranks that have neither attribute."""

    from_set_up: int

    @classmethod
    def setUpClass(cls) -> None:
        cls.from_set_up_class = 1  # before the mixin's, which starts the server of its own accord
        super().setUpClass()

    def setUp(self) -> None:
        super().setUp()
        self.from_set_up = 1

    def test_of_instance(self) -> None:
        self.assertEqual(self.from_set_up, 1)
