"""Tests how the process groups of a rank are told apart."""

from __future__ import annotations

import json
import unittest

from harness.communication.record.known_groups import KnownGroup, KnownGroups
from harness.communication_call import UNNAMED, Kind, Signature, signature_from_json


class Group:
    """A process group as it is looked at; without a name it is one that was never registered."""

    def __init__(self, name: str | None = "0", desc: str = "undefined") -> None:
        self._name = name
        self.group_desc = desc

    @property
    def group_name(self) -> str:
        """The group's name; RuntimeError, as of torch, where it has none."""
        if self._name is None:
            raise RuntimeError
        return self._name

    def name(self) -> str:
        """The backend's name."""
        return "gloo"


def read(text: str) -> Signature:
    """The signature of its JSON."""
    return signature_from_json(json.loads(text))


def signature(known: KnownGroup) -> Signature:
    """What the log has of a group."""
    return read(known.told)


class KnownGroupsTest(unittest.TestCase):
    """What ``KnownGroups`` says of groups."""

    def setUp(self) -> None:
        self.members: tuple[int, ...] = (0, 1)
        self.written: list[str] = []
        self.groups = KnownGroups(lambda group: self.members, self.write)

    def write(self, text: str) -> int:
        """Keeps what is written into the log."""
        self.written.append(text)
        return len(self.written)

    def make(self, name: str, members: tuple[int, ...] = (0, 1), *, default: bool = False) -> Signature:
        """Makes a group, always on the same line."""
        return read(self.groups.make(name, members, "x.py:1", default=default, timeout_s=9.0))

    def test_what_is_known(self) -> None:
        """A group is known by its object from then on, with all that its calls need."""
        self.make("1")
        group = Group("1")
        known = self.groups.find(group)
        self.assertIs(self.groups.by_object[id(group)], known)
        expected = Signature("?", "1", members=(0, 1), made_at="x.py:1", generation=0, backend="gloo")
        self.assertEqual(signature(known), expected)
        self.assertEqual(self.written, [known.told])

    def test_default(self) -> None:
        """The default group is no line's; it is known by what it is."""
        self.assertEqual(self.make("0", default=True).made_at, "")
        told = signature(self.groups.find(Group("0", "default_pg")))
        self.assertEqual((told.default, told.made_at), (True, ""))

    def test_never_registered(self) -> None:
        """A group that was never registered has a name all the same."""
        self.assertEqual(signature(self.groups.find(Group(None))).group, UNNAMED)

    def test_made(self) -> None:
        """The signature of the making itself."""
        for default, operation in ((False, "new_group"), (True, "init_process_group")):
            with self.subTest(operation):
                made = self.make(operation, default=default)
                self.assertEqual((made.operation, made.kind, made.timeout_s), (operation, Kind.MAKING, 9.0))

    def test_several_made_on_one_line(self) -> None:
        """They are told apart by their number, where they have the same members."""
        found = [
            self.make(name, members).made_at
            for name, members in (("1", (0, 1)), ("2", (0, 1)), ("3", (1, 2)))
        ]
        self.assertEqual(found, ["x.py:1", "x.py:1 (number 2)", "x.py:1"])

    def test_made_again(self) -> None:
        """A group of the same name is another generation, whether the earlier one had calls or not."""
        self.assertEqual([self.make("1").generation for _ in range(2)], [0, 1])
        first = self.groups.find(group := Group("1"))
        self.assertEqual(self.make("1").generation, 2)
        self.assertNotIn(id(group), self.groups.by_object)
        second = self.groups.find(group)
        self.assertEqual((signature(first).generation, signature(second).generation), (1, 2))

    def test_made_after_it_was_met(self) -> None:
        """A group that had calls before anybody saw it made is an earlier generation, too."""
        self.assertEqual(signature(self.groups.find(Group("1"))).generation, 0)
        self.assertEqual(self.make("1").generation, 1)

    def test_another_object(self) -> None:
        """Another object for the same group goes on with the numbers of calls; one for another does not."""
        first, others = Group("1"), (Group("1"), Group("2"))
        known = self.groups.find(first)
        known.sequence, known.parts = 3, 1
        numbers = [(found.sequence, found.parts) for found in map(self.groups.find, others)]
        self.assertEqual(numbers, [(3, 1), (0, 0)])

    def test_being_made(self) -> None:
        """A group whose members torch does not know yet is looked at again at its next call."""
        self.members = ()
        group = Group("1")
        self.assertEqual(signature(self.groups.find(group)).members, ())
        self.assertEqual(self.groups.by_object, {})
        self.members = (0, 1)
        self.assertEqual(signature(self.groups.find(group)).members, (0, 1))
        self.assertEqual([*self.groups.by_object], [id(group)])

    def test_forgotten(self) -> None:
        """All that is known may be forgotten, which leaves the same dictionary in use."""
        group, by_object = Group("1"), self.groups.by_object
        self.make("1")
        self.groups.find(group)
        self.groups.forget()
        self.assertIs(self.groups.by_object, by_object)
        self.assertEqual(by_object, {})
        self.assertEqual((self.make("1").generation, self.make("2").made_at), (0, "x.py:1 (number 2)"))

    def test_written_again(self) -> None:
        """A log that has forgotten its texts gets them again; the numbers of calls stay."""
        known = self.groups.find(Group("1"))
        known.sequence = 4
        self.groups.write_again()
        self.assertEqual((self.written[known.text - 1], known.sequence), (known.told, 4))
        self.assertGreater(known.text, 1)


if __name__ == "__main__":
    unittest.main()
