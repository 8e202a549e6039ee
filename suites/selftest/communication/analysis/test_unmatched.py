"""Tests what is said of messages and keys for which ranks wait in vain: tables of ranks' calls."""

from __future__ import annotations

import unittest
from collections.abc import Sequence

from harness.communication.analysis.difference_text import Explanation
from harness.communication.analysis.unmatched import misdirected, tags_differ, unset_text
from harness.communication.analysis.wait_graph import RankView, Waiting, prove
from harness.communication_call import Call, Kind
from suites.selftest.communication.samples import call, receive, send, sets_key, waits_for_key

HERE = "(t.py:20 in test_x)"
TO_1 = f"rank 0 sends to rank 1 {HERE}, which receives nothing from it"


def waiting_in(ranks: Sequence[Sequence[Call]]) -> dict[int, Waiting]:
    """Of four ranks those that wait, where those that do not have left."""
    whole = [*ranks, *[()] * (4 - len(ranks))]
    views = [RankView(rank, calls) for rank, calls in enumerate(whole)]
    settled = [RankView(v.rank, v.calls, settled=not v.waiting()) for v in views]
    return {each.rank: each for each in prove(settled, until_s=0.0)}


class MisdirectedTest(unittest.TestCase):
    """``misdirected``: messages that go to, or are expected of, the wrong rank."""

    def said(self, *ranks: Sequence[Call], gone: tuple[int, ...] = ()) -> Explanation | None:
        """What is said of ranks with these calls."""
        return misdirected(dict(enumerate(ranks)), waiting_in(ranks), gone)

    def test_sent_to_another(self) -> None:
        """The sender and the rank that it sends to come first, and who waits for it is said."""
        text = f"{TO_1}, and rank 2 waits for a message of rank 0 {HERE}"
        self.assertEqual(self.said([send(1)], [], [receive(0)]), Explanation(text, (0, 1)))

    def test_expected_of_another(self) -> None:
        """The receiver comes first, with the rank of which it expects the message, and then the sender."""
        text = (
            f"rank 1 waits for a message of rank 2 {HERE}, which sends it none, "
            f"and rank 0 sends it one {HERE}"
        )
        self.assertEqual(self.said([send(1)], [receive(2)], []), Explanation(text, (1, 2)))

    def test_nothing_is_misdirected(self) -> None:
        """Each row: calls of three ranks of which nothing is said here."""
        met, got = send(1, state="ended"), receive(0, state="ended")
        rows: dict[str, tuple[Sequence[Call], ...]] = {
            "the peer received an earlier one": ([met, send(1, number=2)], [got], [receive(0)]),
            "the peer receives from any": ([send(1)], [receive(None, state="ended")], [receive(0)]),
            "another tag": ([send(1, tag=1)], [], [receive(0)]),
            "another group": ([send(1, group="1")], [], [receive(0)]),
            "a cycle": ([receive(1)], [receive(0)], []),
            "it waits for several": ([send(1)], [], [call()]),
            "the other sender is late with the next": ([send(1)], [receive(2)], [send(1, state="ended")]),
        }
        for name, ranks in rows.items():
            with self.subTest(name):
                self.assertIsNone(self.said(*ranks))
        self.assertIsNone(self.said([send(1)], [], [receive(0)], gone=(1,)))
        self.assertIsNone(self.said([send(1)], [receive(2)], [], gone=(2,)))


class TagsTest(unittest.TestCase):
    """``tags_differ``: a message with another tag, or in another group, than the one that is expected."""

    def test_both_tags(self) -> None:
        """A send and a receive between two ranks with other tags or groups are told together."""
        ranks = [[send(1, tag=3)], [receive(0, tag=4)]]
        found = tags_differ(dict(enumerate(ranks)), waiting_in(ranks))
        text = (
            f"rank 1 waits for a message of rank 0 with tag 4 {HERE}, "
            f"and rank 0 sends it one with tag 3 {HERE}"
        )
        self.assertEqual(found, Explanation(text, (0, 1)))
        ranks = [[send(1, group="1", tag=3)], [receive(0)]]
        found = tags_differ(dict(enumerate(ranks)), waiting_in(ranks))
        text = (
            f"rank 1 waits for a message of rank 0 with tag 0 in the default group {HERE}, and rank 0 sends "
            f"it one with tag 3 in group {{0, 1, 2, 3}} made at t.py:9 {HERE}"
        )
        self.assertEqual(found, Explanation(text, (0, 1)))
        ranks = [[send(2, tag=3)], [receive(0, tag=4)], []]
        self.assertIsNone(tags_differ(dict(enumerate(ranks)), waiting_in(ranks)))


class UnsetTest(unittest.TestCase):
    """``unset_text``: for what a rank waits in a store."""

    def test_table(self) -> None:
        """Each row: the call that waits, what another rank has done, and the words."""
        wanted = waits_for_key("lr", prefix="0/cfg/")
        server = call("TCPStore", kind=Kind.STORE, key="localhost:5", group="", members=(), workers=3)
        client = call("TCPStore", kind=Kind.STORE, key="localhost:5", group="", members=())
        near, two = waits_for_key("key"), waits_for_key("first, second")
        unset = "for a key that nobody has set"
        rows: tuple[tuple[Call, list[Call], bool, str], ...] = (
            (wanted, [sets_key("other")], False, unset),
            (wanted, [sets_key("lr", prefix="0/cfg/")], False, unset),
            (wanted, [], True, f"{unset}, and nobody is left to set it"),
            (
                wanted,
                [sets_key("lr", prefix="0/config/")],
                False,
                f"{unset}: it is 'cfg/lr', and rank 1 sets 'config/lr' {HERE}",
            ),
            (wanted, [sets_key("lr")], False, f"{unset}: it is '0/cfg/lr', and rank 1 sets 'lr' {HERE}"),
            (near, [sets_key("kez")], False, f"{unset}: it is 'key', and rank 1 sets 'kez' {HERE}"),
            (
                near,
                [sets_key("keys.of"), sets_key("KEY")],
                False,
                f"{unset}: it is 'key', and rank 1 sets 'KEY' {HERE}",
            ),
            (near, [sets_key("kez"), waits_for_key("kez", state="ended")], False, unset),
            (
                two,
                [sets_key("first"), sets_key("secnd")],
                False,
                f"{unset}: it is 'second', and rank 1 sets 'secnd' {HERE}",
            ),
            (server, [client], False, "to which 2 of 3 come"),
            (client, [], False, "for a server that nobody has started"),
        )
        for mine, others, nobody_left, expected in rows:
            with self.subTest(mine=str(mine), others=[str(each) for each in others]):
                found = unset_text({0: [mine], 1: others}, mine, nobody_left=nobody_left)
                self.assertEqual(found, expected)


if __name__ == "__main__":
    unittest.main()
