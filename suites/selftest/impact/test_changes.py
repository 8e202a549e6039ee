"""Tests what a change of files is: of a git repository, and of a file that is only named."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path

from harness.errors import UsageError
from harness.impact import changes
from harness.impact.changes import Change

SOURCE = """\
LIMIT = 3


def add(
    a,
    b=LIMIT,
):
    total = a + b
    return total


class C:
    kind = "c"

    async def get(self):
        return add(1)


def short(): return 1
"""


class BodiesTest(unittest.TestCase):
    """Which lines are inside of functions."""

    def test_lines(self) -> None:
        """Bodies are; signatures, with defaults, and what classes and modules execute are not."""
        self.assertEqual(sorted(changes.bodies(SOURCE)), [8, 9, 16])

    def test_no_python(self) -> None:
        """What is no Python has none."""
        for source in ("def f(:\n  pass\n", "\0"):
            self.assertEqual(changes.bodies(source), frozenset())


class RepositoryCase(unittest.TestCase):
    """Base class of tests in a git repository of their own."""

    def setUp(self) -> None:
        """Makes the repository, which has no commit."""
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.top = Path(temporary.name).resolve()
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> None:
        """Runs git, as nobody in particular."""
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *arguments], cwd=self.top, check=True, capture_output=True)

    def commit(self, **files: str) -> None:
        """Commits Python files, given by their names."""
        for name, text in files.items():
            (self.top / f"{name}.py").write_text(text, encoding="utf-8")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a change")


class SinceTest(RepositoryCase):
    """What differs from a revision."""

    def since(self, revision: str = "HEAD") -> set[Change]:
        """The changes, whose places fit to their names."""
        found = changes.since(revision, self.top)
        self.assertEqual(found.keys(), {self.top / change.file for change in found.values()})
        return set(found.values())

    def test_kinds(self) -> None:
        """A change inside of functions, one outside, a new file, one that is gone; none without a change."""
        self.commit(same=SOURCE, body=SOURCE, limit=SOURCE, more=SOURCE, gone=SOURCE)
        self.assertEqual(self.since(), set())
        for name, old, new in (
            ("body", "a + b", "b + a"),
            ("limit", "LIMIT = 3", "LIMIT = 4"),
            ("more", "    return total\n", "    return total\n\n\nMORE = 1\n"),
            ("new", "", ""),
        ):
            (self.top / f"{name}.py").write_text(SOURCE.replace(old, new) if old else SOURCE)
        (self.top / "gone.py").unlink()
        (self.top / "words.txt").write_text("words")
        wanted = {
            Change("body.py", inside=True),
            *map(Change, ("limit.py", "more.py", "new.py", "words.txt")),
            Change("gone.py", gone=True),
        }
        self.assertEqual(self.since(), wanted)

    def test_where_it_left(self) -> None:
        """What others have changed in the revision since is no change; a moved file is gone, and new."""
        self.commit(a=SOURCE, b=SOURCE)
        self.git("checkout", "-q", "-b", "mine")
        self.git("mv", "b.py", "c.py")
        self.commit()
        self.git("checkout", "-q", "main")
        self.commit(a="")
        self.git("checkout", "-q", "mine")
        self.assertEqual(self.since("main"), {Change("b.py", gone=True), Change("c.py")})

    def test_refused(self) -> None:
        """An unknown revision, and a directory without a repository, are the user's mistakes."""
        self.commit(a="")
        with self.assertRaisesRegex(UsageError, "--changed: git merge-base: .*nowhere"):
            self.since("nowhere")
        with tempfile.TemporaryDirectory() as other, self.assertRaisesRegex(UsageError, "--affected-by FILE"):
            changes.top_of(Path(other))


class NamedTest(unittest.TestCase):
    """A file that is only named."""

    def test_inside(self) -> None:
        """It has changed inside of functions, where it has functions."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "a.py")
            for source, inside in ((SOURCE, True), ("LIMIT = 3\n", False)):
                path.write_text(source, encoding="utf-8")
                self.assertEqual(changes.named("x/a.py", path), Change("x/a.py", inside))
        self.assertEqual(changes.named("x/a.cpp", Path("x/a.cpp")), Change("x/a.cpp"))


if __name__ == "__main__":
    unittest.main()
