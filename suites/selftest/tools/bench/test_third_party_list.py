"""Tests the list of other projects' test files: what is refused, and what of a checkout is used."""

from __future__ import annotations

import json
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from tools.bench.third_party import LIST
from tools.bench.third_party_list import Reason, Repository, files_of, load

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REASON = {"file": "a.py", "test": "t", "upstream": "passed", "ours": "not passed", "reason": "why"}
ENTRY = {"name": "owner/name", "commit": COMMIT, "files": ["a.py"]}
WRONG: dict[str, dict[str, Any]] = {
    "owner/name": {"name": "name"},
    "whole commit": {"commit": "main"},
    "list of texts": {"files": "a.py"},
    "branch": {"branch": "main"},
    "not among the files": {"reasons": [{**REASON, "file": "b.py"}]},
    "empty field": {"reasons": [{**REASON, "reason": ""}]},
}


class LoadTest(unittest.TestCase):
    """Lists that are read, and those that are refused."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def load(self, **fields: Any) -> tuple[Repository, ...]:
        """Loads a list of one entry with these fields beside the ones it has to have."""
        path = self.directory / "list.json"
        path.write_text(json.dumps({"repositories": [{**ENTRY, **fields}]}))
        return load(path)

    def test_entry(self) -> None:
        """The fields of an entry are those of a repository."""
        (found,) = self.load(reasons=[REASON], requirements=["x==1"])
        self.assertEqual(found.files, ("a.py",))
        self.assertEqual(found.requirements, ("x==1",))
        self.assertEqual(found.reasons, (Reason("a.py", "t", "passed", "not passed", "why"),))

    def test_wrong_entries(self) -> None:
        """Wrong fields are refused in one line that names them."""
        for words, fields in WRONG.items():
            with self.subTest(words), self.assertRaisesRegex(UsageError, words) as caught:
                self.load(**fields)
            self.assertNotIn("\n", str(caught.exception))

    def test_wrong_files(self) -> None:
        """So are a missing file and one that is no list."""
        path = self.directory / "list.json"
        self.assertRaisesRegex(UsageError, "cannot be read", load, path)
        for text in ("{", "[]", '{"repositories": [1]}', "{}"):
            path.write_text(text)
            with self.subTest(text):
                self.assertRaisesRegex(UsageError, "list of repositories", load, path)

    def test_own_list(self) -> None:
        """The list of this project can be read."""
        names = {"pytorch/ao", "meta-pytorch/autoparallel", "meta-pytorch/spmd_types"}
        others = {
            "facebookresearch/optimizers",
            "pytorch/PiPPy",
            "meta-pytorch/torchsnapshot",
            "huggingface/accelerate",
        }
        others |= {
            "Project-MONAI/MONAI",
            "facebookresearch/fairscale",
            "microsoft/dion",
            "open-mmlab/mmengine",
        }
        self.assertEqual({each.name for each in load(LIST)}, names | others)


class FilesTest(unittest.TestCase):
    """``files_of``, of checkouts that are there; nothing is fetched."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.checkouts = Path(directory.name)
        self.root = self.checkouts / "owner+name"
        self.root.mkdir()
        self.repository = Repository("owner/name", COMMIT, ("a.py",), python_path=(".", "src"))

    def test_given(self) -> None:
        """A checkout that is there is used, with its directories and the packages beside it on the path."""
        (self.root / "a.py").touch()
        (found,) = files_of(self.repository, self.checkouts)
        self.assertEqual((found.root, found.file), (self.root, "a.py"))
        packages = self.checkouts / "owner+name.packages"
        self.assertEqual(found.python_path, (self.root, self.root / "src", packages))

    def test_missing_file(self) -> None:
        """A file that the checkout lacks is refused."""
        self.assertRaisesRegex(UsageError, "a.py does not exist", files_of, self.repository, self.checkouts)

    def test_other_commit(self) -> None:
        """So is a git work tree of another commit."""
        git = ["git", "-c", "user.name=x", "-c", "user.email=x@x"]
        for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
            subprocess.run([*git, *words], cwd=self.root, check=True)
        self.assertRaisesRegex(UsageError, "is at commit", files_of, self.repository, self.checkouts)


if __name__ == "__main__":
    unittest.main()
