"""A case whose fixtures set attributes in the parent that its test reads in the ranks."""

from __future__ import annotations

from harness import MultiProcessTestCase


class Fixtures(MultiProcessTestCase):
    """Two ranks that have neither attribute."""

    world_size = 2
    from_set_up: int
    from_set_up_class: int

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.from_set_up_class = 1

    @classmethod
    def tearDownClass(cls) -> None:
        super().tearDownClass()
        del cls.from_set_up_class

    def setUp(self) -> None:
        super().setUp()
        self.from_set_up = 1

    def test_of_instance(self) -> None:
        self.assertEqual(self.from_set_up, 1)

    def test_of_class(self) -> None:
        self.assertEqual(self.from_set_up_class, 1)
