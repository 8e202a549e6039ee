"""Tests what the entries of a log and the texts to which they point mean."""

from __future__ import annotations

import unittest

from harness.communication.arguments import Arguments
from harness.communication.log_entries import LENGTH, Entry, calls_of
from harness.communication.signatures import call_text, group_text
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
        return list(calls_of(entries, self.texts))

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
            (call,) = calls_of([(0, 0, 1, 1, flags, 1, 0, 1.0, 0.0, 0.0)], self.texts)
            set_ones = {name for name in fields if getattr(call, name)}
            self.assertEqual(set_ones, {name for bit, name in enumerate(fields) if flags >> bit & 1})


if __name__ == "__main__":
    unittest.main()
