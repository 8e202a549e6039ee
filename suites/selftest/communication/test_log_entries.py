"""Tests what the entries of a log and the texts to which they point mean."""

from __future__ import annotations

import unittest

import torch

from harness.communication.analysis.checks import findings
from harness.communication.log_entries import LENGTH, Entry, LoggedCalls, all_alike
from harness.communication.record.arguments import Arguments
from harness.communication.record.signatures import call_text, group_text
from harness.communication_call import Call, Signature

GROUP = group_text("7", (4, 6), made_at="", default=False, generation=0, timeout_s=9.0, backend="gloo")


class EntriesTest(unittest.TestCase):
    """Calls of entries and texts."""

    def setUp(self) -> None:
        self.texts = b"\0" * LENGTH.size

    def text(self, value: str | bytes) -> int:
        """Writes a text, and returns its offset."""
        data = value if isinstance(value, bytes) else value.encode()
        offset = len(self.texts)
        self.texts += LENGTH.pack(len(data)) + data
        return offset

    def calls(self, *pairs: tuple[int, int]) -> list[Call]:
        """The calls of entries with these offsets of signature and group."""
        entries: list[Entry] = [(one, 0, 1, 1, 0, 1, group, 1.0, 0.0, 0.0) for one, group in pairs]
        return list(LoggedCalls(entries, self.texts))

    def test_group(self) -> None:
        """What a call was given and its group are two texts, of which one signature is made, once."""
        given, group = self.text(call_text("broadcast", Arguments(root=1))), self.text(GROUP)
        one, other = self.calls((given, group), (given, group))
        expected = Signature("broadcast", "7", members=(4, 6), backend="gloo", root=6, timeout_s=9.0)
        self.assertEqual(one.signature, expected)
        self.assertIs(one.signature, other.signature)

    def test_signature_that_is_none(self) -> None:
        """A text that is no signature is an unknown call, and so is one on a group that is unknown."""
        given = self.text(call_text("barrier", Arguments()))
        texts = (b"[1, 2", b"[1, 2]", b"3", b"\xff", b'{"operation": 3}', b"[" * 9999)
        pairs = [(self.text(text), 0) for text in texts]
        pairs += [(given, 0), (given, 10**6), (0, 0), (10**6, 0)]
        pairs += [(given, self.text(text)) for text in (b"[]", b"\xff", b"{}", b"[" * 9999)]
        self.assertEqual({call.signature for call in self.calls(*pairs)}, {Signature("?")})

    def test_unprintable(self) -> None:
        """What could not be printed is a question mark, also where JSON has it escaped or in the group."""
        for wrong in ("\\u001b", "\\n", "\u202e", "\\ud800"):
            with self.subTest(wrong):
                group = GROUP.replace('"7"', f'"7{wrong}"')
                pairs = [(self.text(f'{{"operation":"get","key":"k{wrong}"}}'), 0)]
                pairs += [(self.text(call_text("barrier", Arguments())), self.text(group))]
                one, other = (call.signature for call in self.calls(*pairs))
                self.assertEqual((one.key, other.group), ("k?", "7?"))

    def test_flags(self) -> None:
        """Each flag is its field, in any sum."""
        fields = ("own_work", "unseen", "bounded", "raised", "refused", "by_library")
        for flags in range(64):
            (call,) = LoggedCalls([(0, 0, 1, 1, flags, 1, 0, 1.0, 0.0, 0.0)], self.texts)
            set_ones = {name for name in fields if getattr(call, name)}
            self.assertEqual(set_ones, {name for bit, name in enumerate(fields) if flags >> bit & 1})

    def test_sequence(self) -> None:
        """The calls are a sequence, and equal to others of the same calls, without those that are none."""
        signature = self.text('{"operation":"barrier"}')
        of = [
            (signature, 0, n, 1, 0, 1, 0, started, 0.0, 0.0) for n, started in ((1, 1.0), (2, -1.0), (3, 2.0))
        ]
        calls = LoggedCalls(of, self.texts)
        expected = tuple(Call(Signature("barrier"), n, 1, float(started)) for n, started in ((1, 1), (3, 2)))
        self.assertEqual((len(calls), calls, calls[-1:], calls[1]), (2, expected, expected[1:], expected[1]))
        self.assertEqual(({calls}, repr(calls)), ({expected}, repr(expected)))
        self.assertNotEqual(calls, expected[:1])
        self.assertNotEqual(calls, 3)
        self.assertFalse(LoggedCalls(of[1:2], self.texts))

    def test_alike(self) -> None:
        """Ranks are alike that have logged the same, but for what is nowhere compared, and have ended it."""
        group = self.text(GROUP)
        reduce, gather = (self.text(call_text(name, Arguments())) for name in ("all_reduce", "all_gather"))
        send = self.text(call_text("send", Arguments(peer=1)))
        uneven = self.text(call_text("all_to_all", Arguments((torch.ones(2),), (torch.ones(3),))))
        two, three = torch.ones(2, 1), torch.ones(3)
        even, one_more = (
            self.text(call_text("all_gather", Arguments((two,), given)))
            for given in ((two, two), (two, three))
        )
        making, finding, layout, unequal = (
            self.text(f'{{"operation":"x","kind": "{kind}"{more}}}')
            for kind, more in (("making", ""), ("finding", ""), ("layout", ""), ("collective", ',"sent":[1]'))
        )
        sets, gets = (self.text(f'{{"operation":"x","kind":"{kind}"}}') for kind in ("setting", "store"))
        named = self.text('{"operation":"store.get","key":"\\"kind\\":\\"store\\"","group":"sent"}')
        table: dict[str, tuple[list[int], list[int], bool]] = {
            "nothing": ([], [], True),
            "the same": ([making, reduce, gather, layout, 0], [making, reduce, gather, layout, 0], True),
            "other order": ([reduce, gather], [gather, reduce], False),
            "one less": ([reduce, gather], [reduce], False),
            "keys of one": ([reduce, sets, gets], [reduce], True),
            "a key that looks like a kind": ([named, reduce], [reduce], False),
            "gathered": ([even], [even], True),
            "gathered unevenly": ([one_more], [one_more], False),
            "a message": ([send], [send], False),
            "counts": ([uneven], [uneven], False),
            "counts of another text": ([unequal], [unequal], False),
            "told by ranks": ([finding], [finding], False),
            "no text of a rank's": ([self.text(b"\xff")], [self.text(b"\xff")], True),
        }
        for name, (one, other, expected) in table.items():
            with self.subTest(name):
                ranks = {rank: self.ended(*mine, group=group) for rank, mine in enumerate((one, other))}
                self.assertIs(all_alike(ranks), expected)
                self.assertIs(all_alike({0: ranks[1], 1: ranks[0]}), expected)
                self.assertFalse(expected and findings({r: tuple(ranks[r]) for r in ranks}))
        both = {rank: self.ended(reduce, group=group) for rank in range(2)}
        self.assertTrue(all_alike({**both, 2: self.ended(reduce, group=group)}))
        self.assertFalse(all_alike({**both, 2: self.ended(reduce, group=0)}))
        self.assertFalse(all_alike({**both, 2: self.ended(reduce, group=group, first=2)}))
        self.assertFalse(all_alike({**both, 2: self.ended(reduce, group=group, ended=0.0)}))
        self.assertTrue(all_alike({0: self.ended(sets, ended=0.0), 1: self.ended()}))
        self.assertFalse(all_alike({0: tuple(both[0]), 1: both[1]}))

    def test_alike_by_group(self) -> None:
        """Members of each group are alike, whatever other ranks do in groups of theirs."""
        reduce, gather = (self.text(call_text(name, Arguments())) for name in ("all_reduce", "all_gather"))
        making = self.text('{"operation":"x","kind":"making"}')
        group, alone, broken = map(self.text, (GROUP, GROUP.replace("[4, 6]", "[5]"), "[" * 9999))
        both = {rank: self.ended(reduce, gather, group=group) for rank in (6, 4)}
        other = self.ended(gather, group=alone)
        table = (
            ("two groups", {**both, 5: other}, True),
            ("a rank without a call", {**both, 5: other, 7: self.ended()}, True),
            ("a member that makes another call", {**both, 6: self.ended(gather, gather, group=group)}, False),
            ("a member that makes none", {4: both[4], 6: self.ended(), 5: other}, False),
            ("a member of which nothing is known", {4: both[4], 5: other}, False),
            ("a rank that is no member", {**both, 5: both[4], 7: self.ended()}, False),
            ("a group that is none", {4: self.ended(reduce, group=broken), 6: self.ended()}, False),
            ("made by some", {4: self.ended(making), 6: self.ended()}, False),
        )
        for name, ranks, expected in table:
            with self.subTest(name):
                self.assertIs(all_alike(ranks), expected)
                self.assertFalse(expected and findings({r: tuple(ranks[r]) for r in ranks}))

    def ended(self, *signatures: int, group: int = 0, first: int = 1, ended: float = 2.0) -> LoggedCalls:
        """Calls with numbers from ``first`` on that have ended at that time."""
        entries: list[Entry] = [
            (each, 0, number, 1, 0, 1, group, 1.0, 1.0, ended)
            for number, each in enumerate(signatures, first)
        ]
        return LoggedCalls(entries, self.texts)


if __name__ == "__main__":
    unittest.main()
