"""What is told of two runs: snapshots and their differences, names, aliases."""

from __future__ import annotations

import unittest
from typing import Any

import torch
from torch.testing._internal.two_tensor import TwoTensor

from harness import TestCase
from harness.graphs.aliasing import aliases_of
from harness.graphs.differences import Tolerance, different
from harness.graphs.leaf_names import joined, named_inputs, named_outputs
from harness.graphs.observation import PreparedCall, observe, weighted_sum
from harness.graphs.snapshots import snapshot


class SnapshotTest(TestCase):
    """``different`` on the snapshots of two tensors."""

    def told(self, eager: torch.Tensor, compiled: torch.Tensor, **options: Any) -> list[str]:
        """What differs."""
        return list(different(snapshot(eager), snapshot(compiled), Tolerance(), **options))

    def test_equal(self) -> None:
        """Also where there is NaN, nothing, no data, or a stride that leads nowhere."""
        gone = torch.zeros(3)
        gone.untyped_storage().resize_(0)
        for eager, compiled in (
            (torch.tensor([1.0, float("nan")]), torch.tensor([1.0, float("nan")])),
            (torch.empty(0, 3), torch.empty(3, 0).t()),
            (torch.ones(3, 1), torch.ones(1, 3).t()),
            (gone, gone),
            (torch.tensor([1 + 1j]).conj(), torch.tensor([1 - 1j])),
            (torch.eye(2).to_sparse(), torch.eye(2).to_sparse()),
            (torch.tensor([1.0]), torch.tensor([1.0 + 1e-7])),
        ):
            self.assertEqual(self.told(eager, compiled, placed=False), [])

    def test_unlike(self) -> None:
        """By the aspect; of values the first."""
        gone = torch.zeros(3)
        gone.untyped_storage().resize_(0)
        base = torch.zeros(4)
        for eager, compiled, *texts in (
            (
                torch.tensor([1, 2]),
                torch.tensor([1, 3]),
                "values differ: at [1] 3 compiled, 2 in eager (1 of 2 elements)",
            ),
            (torch.tensor(True), torch.tensor(False), "values differ: False compiled, True in eager"),
            (torch.tensor([1j]), torch.tensor([2j]), "values differ: at [0] 2j compiled, 1j in eager"),
            (torch.zeros(3), gone, "storage_bytes 0 compiled, 12 in eager", "has no data compiled"),
            (base[1:3], base[:2], "storage_offset 0 compiled, 1 in eager"),
            (
                torch.zeros(2),
                torch.zeros(3),
                "shape (3,) compiled, (2,) in eager",
                "storage_bytes 12 compiled, 8 in eager",
            ),
            (torch.eye(2), torch.eye(2).to_sparse(), "layout sparse_coo compiled, strided in eager"),
            (torch.zeros(2), torch.zeros(2, device="meta"), "device meta compiled, cpu in eager"),
            (
                torch.tensor([0.0]),
                torch.tensor([float("nan")]),
                "values differ: at [0] nan compiled, 0.0 in eager",
            ),
        ):
            said = self.told(eager, compiled)
            for text in texts:
                self.assertTrue(any(line.startswith(text) for line in said), (text, said))

    def test_place(self) -> None:
        """Counts only where it is asked for."""
        base = torch.zeros(4)
        self.assertEqual(self.told(base[1:3], base[:2], placed=False), [])

    def test_subclasses(self) -> None:
        """By the part that differs, however deep."""
        one, other = torch.ones(2), torch.zeros(2)
        self.assertEqual(self.told(TwoTensor(one, one), TwoTensor(one, one.clone())), [])
        deep = [TwoTensor(TwoTensor(one, one), TwoTensor(one, last)) for last in (one, other)]
        self.assertEqual(
            self.told(*deep),
            ["its part .b.b has values differ: at [0] 0.0 compiled, 1.0 in eager (2 of 2 elements)"],
        )
        (text,) = [line for line in self.told(TwoTensor(one, one), one) if line.startswith("type")]
        self.assertEqual(text, "type Tensor compiled, TwoTensor in eager")

    def test_invalid_view(self) -> None:
        """One that autograd refuses to speak of is told as such."""
        base = torch.ones(2, requires_grad=True) * 1
        with torch.no_grad():
            view = base[1:]
        base.mul_(2)
        said = self.told(torch.ones(1, requires_grad=True), view)
        self.assertTrue(any("A view was created in no_grad mode" in line for line in said), said)


class ObservationTest(TestCase):
    """``observe`` on functions whose behaviour is known."""

    def prepared(self, *arguments: torch.Tensor, leaves: tuple[torch.Tensor, ...] = ()) -> PreparedCall:
        """Arguments a, b, and so on."""
        named = list(zip("abc", arguments, strict=False))
        return PreparedCall(
            torch.clone, arguments, named, [(f"leaf {index}", leaf) for index, leaf in enumerate(leaves)]
        )

    def test_moments(self) -> None:
        """After the call, the backward, and a write to each output, with what it raised."""
        leaf = torch.ones(2, requires_grad=True)
        x = torch.ones(2)

        def f(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            b.add_(1)
            return a, b.view(2)

        seen = observe(f, self.prepared(leaf, x, leaves=(leaf,)), write=True)
        labels = [
            "after the call",
            "after the backward",
            "after writing to output 0",
            "after writing to output 1",
        ]
        self.assertEqual([moment.label for moment in seen.moments], labels)
        values = [moment.inputs["b"].values for moment in seen.moments]
        self.assertEqual(
            torch.stack([v for v in values if v is not None])[:, 0], torch.tensor([2.0, 2, 2, 4])
        )
        self.assertIsInstance(seen.moments[2].error, RuntimeError)
        self.assertIsNone(seen.moments[3].error)

    def test_gradients(self) -> None:
        """Through each output alone, weighted; none where nothing flows."""
        one, other = (torch.ones(3, requires_grad=True) for _ in "ab")
        seen = observe(
            lambda a, b: (a * 2, b + a, a.detach()),
            self.prepared(one, other, leaves=(one, other)),
            write=False,
        )
        found = {
            key: None if gradient is None else gradient.values for key, gradient in seen.gradients.items()
        }
        weights = torch.tensor([0.25, 0.5, 0.75])
        self.assertEqual(
            found,
            {
                ("output 0", "leaf 0"): 2 * weights,
                ("output 0", "leaf 1"): None,
                ("output 1", "leaf 0"): weights,
                ("output 1", "leaf 1"): weights,
            },
        )
        self.assertIsNone(one.grad)

    def test_gradients_of_written_inputs(self) -> None:
        """Through an argument that was written to and is not returned; if they are named, those."""
        leaf, other = (torch.ones(2, requires_grad=True) for _ in "ab")

        def f(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
            a.mul_(3)
            return b.mul_(2)

        def seen(written: tuple[str, ...] | None) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
            arguments = leaf * 1, other * 1, other * 1
            prepared = self.prepared(*arguments, leaves=(leaf, other))
            run = observe(f, prepared, write=False, written=written)
            return run.written, [key for key, gradient in run.gradients.items() if gradient is not None]

        self.assertEqual(seen(None), (("a",), [("the output", "leaf 1"), ("a", "leaf 0")]))
        self.assertEqual(seen(()), ((), [("the output", "leaf 1")]))
        self.assertEqual(seen(("b", "c"))[0], ("c",))

    def test_written_input_without_backward(self) -> None:
        """One whose history a later write has spoiled is left out, with nothing left in the leaves."""
        leaf = torch.ones(2, requires_grad=True)

        def f(a: torch.Tensor) -> None:
            a.copy_(a.sin())
            a.mul_(2)

        seen = observe(f, self.prepared(leaf * 1, leaves=(leaf,)), write=False)
        self.assertEqual((seen.written, seen.gradients, leaf.grad), ((), {}, None))

    def test_weights(self) -> None:
        """Of any dtype and layout a real number."""
        for tensor in (torch.ones(2, 2), torch.ones(2, dtype=torch.complex64), torch.eye(2).to_sparse()):
            total = weighted_sum(tensor.requires_grad_())
            self.assertEqual((total.shape, total.is_complex()), ((), False))


class NameTest(unittest.TestCase):
    """What things are called."""

    def test_inputs(self) -> None:
        """By number and parameter, and by the place in a container; modules without ``self``."""
        x = torch.ones(1)

        def f(first: Any, second: Any, *more: Any) -> None: ...

        names = [name for name, _ in named_inputs(f, [x, {"k": [x, 3]}, x])]
        self.assertEqual(
            names, ["input 0 (first)", "input 1 (second)['k'][0]", "input 1 (second)['k'][1]", "input 2"]
        )
        self.assertEqual([name for name, _ in named_inputs(torch.nn.Linear(1, 1), [x])], ["input 0 (input)"])
        self.assertEqual(named_inputs(torch.sin, [x]), [("input 0", x)])

    def test_outputs(self) -> None:
        """One alone, several, in containers."""
        for returned, names in (
            (1, ["the output"]),
            ([1, (2, 3)], ["output 0", "output 1[0]", "output 1[1]"]),
            ({"loss": 1}, ["output['loss']"]),
            ([], []),
        ):
            self.assertEqual([name for name, _ in named_outputs(returned)], names)

    def test_joined(self) -> None:
        """As one says it."""
        for names, text in (
            ([], "nothing"),
            (["a"], "a"),
            (["a", "b"], "a and b"),
            (["a", "b", "c"], "a, b and c"),
        ):
            self.assertEqual(joined(names), text)


class AliasTest(unittest.TestCase):
    """``aliases_of``."""

    def test_aliases(self) -> None:
        """Memory of all, views where there is grad, one object."""
        base = torch.ones(2, 2, requires_grad=True) * 1
        other = torch.ones(2)
        found = aliases_of(
            [("a", base), ("b", base.detach()), ("c", other)],
            [("row", base[0]), ("again", base), ("sparse", torch.eye(2).to_sparse()), ("tail", other[1:])],
        )
        self.assertEqual(found["a"].memory, ("b",))
        self.assertEqual(found["c"].memory, ())
        self.assertEqual(found["row"].memory, ("a", "b", "again"))
        self.assertEqual(found["row"].views, ("a", "again"))
        self.assertEqual(found["again"].same, ("a",))
        self.assertEqual(found["sparse"].memory, ())
        self.assertEqual((found["tail"].memory, found["tail"].views), (("c",), ()))

    def test_subclasses(self) -> None:
        """Share what their parts share."""
        x = torch.ones(2)
        found = aliases_of([("a", TwoTensor(x, torch.zeros(2)))], [("x", x), ("y", torch.ones(2))])
        self.assertEqual((found["x"].memory, found["y"].memory), (("a",), ()))


if __name__ == "__main__":
    unittest.main()
