"""The names of inputs, outputs and leaves in the verifier's messages."""

from __future__ import annotations

import unittest
from typing import Any

import torch

from harness.graphs.leaf_names import joined, named_inputs, named_outputs


class NameTest(unittest.TestCase):
    """``named_inputs``, ``named_outputs`` and ``joined``."""

    def test_inputs(self) -> None:
        """Inputs are named by number, parameter, and path in a container; a module's without ``self``."""
        x = torch.ones(1)

        def f(first: Any, second: Any, *more: Any) -> None: ...

        names = [name for name, _ in named_inputs(f, [x, {"k": [x, 3]}, x])]
        self.assertEqual(
            names, ["input 0 (first)", "input 1 (second)['k'][0]", "input 1 (second)['k'][1]", "input 2"]
        )
        self.assertEqual([name for name, _ in named_inputs(torch.nn.Linear(1, 1), [x])], ["input 0 (input)"])
        self.assertEqual(named_inputs(torch.sin, [x]), [("input 0", x)])

    def test_outputs(self) -> None:
        """A single output, several outputs, and outputs in containers are named."""
        for returned, names in (
            (1, ["the output"]),
            ([1, (2, 3)], ["output 0", "output 1[0]", "output 1[1]"]),
            ({"loss": 1}, ["output['loss']"]),
            ([], []),
        ):
            self.assertEqual([name for name, _ in named_outputs(returned)], names)

    def test_joined(self) -> None:
        """Names are joined with commas and ``and``."""
        for names, text in (
            ([], "nothing"),
            (["a"], "a"),
            (["a", "b"], "a and b"),
            (["a", "b", "c"], "a, b and c"),
        ):
            self.assertEqual(joined(names), text)


if __name__ == "__main__":
    unittest.main()
