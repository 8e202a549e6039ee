"""Self-tests of harness.tensors: which tensors and arrays are equal, compared with torch's own TestCase."""

from __future__ import annotations

import unittest
import unittest.mock
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.testing._internal.common_utils import TestCase as TorchTestCase

from harness.comparison import Comparison, Difference, Rules
from harness.tensors import compare_arrays

T = torch.tensor
ONES = torch.ones(2)
COO = torch.sparse_coo_tensor(T([[0, 0]]), T([1.0, 1.0]), (2,), check_invariants=True)


def quietly(make: Callable[[], torch.Tensor]) -> torch.Tensor:
    """The tensor that ``make`` returns, without the warning that its kind is new or deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def quantized(*values: float) -> torch.Tensor:
    floats = T(values, dtype=torch.float32)
    return quietly(lambda: torch.quantize_per_tensor(floats, 0.5, 0, torch.quint8))


CSR, CSC = quietly(torch.eye(2).to_sparse_csr), quietly(torch.eye(2).to_sparse_csc)
NESTED = quietly(lambda: torch.nested.nested_tensor([ONES, T([1.0])]))


def difference(x: Any, y: Any, **rules: Any) -> Difference | None:
    return Comparison(Rules(**rules), compare_arrays, unittest.TestCase().assertEqual).difference(x, y)


EQUAL: list[tuple[Any, Any, dict[str, Any]]] = [
    (ONES, ONES.clone(), {}),
    (ONES, ONES + 1e-6, {}),
    (T([1.0], dtype=torch.float64), T([1.0 + 5e-8], dtype=torch.float64), {}),
    (T([1.0], dtype=torch.bfloat16), T([1.0078125], dtype=torch.bfloat16), {}),
    (T([1.0 + 1j]), T([1.000001 + 1j]), {}),
    (T([3, 4]), T([4, 4]), {"atol": 1, "rtol": 0}),
    (ONES, ONES + 0.09, {"least_atol": 0.1}),
    (T([1, 2]), T([1.0, 2.0]), {"exact_dtype": False}),
    (T(float("nan")), T(float("nan")), {}),
    (torch.ones(0), torch.ones(0), {}),
    (torch.nn.Parameter(ONES.clone()), ONES, {}),
    (ONES.clone().requires_grad_(), ONES, {}),
    (torch.ones(2, 3).t(), torch.ones(3, 2), {}),
    (COO, COO.clone(), {}),
    (COO, COO.to_dense(), {}),
    (CSR, CSR.clone(), {}),
    (CSC, torch.eye(2), {}),
    (quantized(1, 2), quantized(1, 2), {}),
    (T([1.0, 2.0], dtype=torch.float8_e4m3fn), T([1.0, 2.0], dtype=torch.float8_e4m3fn), {}),
    (T([1, 2], dtype=torch.uint16), T([1, 2], dtype=torch.uint16), {}),
    (torch.ones(2, device="meta"), torch.zeros(2, device="meta"), {}),
    (ONES, torch.ones(2, device="meta"), {}),
    # arrays
    (np.array([1, 2]), T([1, 2]), {}),
    (np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-9]), {}),
    (np.array([1, 2])[::-1], T([2, 1]), {}),
    (np.arange(3, dtype=">i4"), T([0, 1, 2], dtype=torch.int32), {}),
    (np.array(["a", None], dtype=object), np.array(["a", None], dtype=object), {}),
    (np.array(["a"]), ["a"], {}),
    (np.float64(1), 1.0, {}),
    (np.float32(0.1), 0.1, {}),
    (np.int64(2**62), 2**62, {}),
    (np.bool_(True), True, {}),
    (np.bool_(True), T(True), {}),
    # numbers
    (T(1), 1, {}),
    (T(1), True, {}),
    (T(True), 1, {}),
    (T([[1.5]]), 1.5, {}),
    (1.0, T(1), {}),
    (np.array([2.0]), 2, {}),
    # sequences
    (T([1, 2]), [1, 2], {}),
    (T([1, 2]), (1, 2), {}),
    (range(2), T([0, 1]), {}),
    (T([1.0, 2.0]), [1, 2], {}),
    (T([0.1], dtype=torch.float64), [0.1], {}),
    (T([0.1], dtype=torch.float16), [0.1], {}),
    (T([True, False]), [1, 0], {}),
    (T([1, 0]), [True, False], {}),
    (T([]), [], {}),
    (torch.empty(0, dtype=torch.int64), [], {}),
    (torch.ones(2, 2), [[1, 1], (1, 1)], {}),
    (T([1, 2]), [T(1), T(2)], {}),
    (T([1.0, 2.0]), [np.array(1), np.array(2)], {}),
    (torch.ones(2, 2), [ONES, ONES], {}),
    (np.array([1, 2]), [1, 2], {}),
    (T([2**63 - 1]), [2**63 - 1], {}),
    # in containers, and containers of torch
    ([T([1, 2])], [[1, 2]], {}),
    ({"a": (T(1.0), None)}, {"a": [T(1.0), None]}, {}),
    (torch.Size([1, 2]), [1, 2], {}),
    (torch.nn.ParameterList([torch.nn.Parameter(ONES.clone())]), [ONES], {}),
    (torch.nn.ParameterDict({"a": torch.nn.Parameter(ONES.clone())}), {"a": ONES}, {}),
    (NESTED, NESTED.clone(), {}),
    (NESTED, [ONES, T([1.0])], {}),
    (torch.float32, torch.float32, {}),
    (torch.device("cpu"), torch.device("cpu"), {}),
    (ONES, unittest.mock.ANY, {}),
]

DIFFERENT: list[tuple[Any, Any, dict[str, Any]]] = [
    (ONES, ONES + 1e-3, {}),
    (ONES, ONES + 1e-6, {"atol": 0, "rtol": 0}),
    (ONES, torch.ones(3), {}),
    (torch.ones(2, 3), torch.ones(3, 2), {}),
    (ONES, torch.ones(1), {}),
    (T(1.0), T([1.0]), {}),
    (T([1]), T([1.0]), {}),
    (T([1], dtype=torch.int32), T([1]), {}),
    (T([1.0], dtype=torch.float64), T([1.0 + 5e-7], dtype=torch.float64), {}),
    (T([3, 4]), T([4, 4]), {}),
    (T(float("nan")), T(float("nan")), {"equal_nan": False}),
    (torch.zeros(1), -torch.zeros(1) + 1, {}),
    (torch.ones(2, 3).t(), torch.ones(3, 2), {"exact_stride": True}),
    (COO, COO.to_dense(), {"exact_layout": True}),
    (COO, COO.coalesce(), {"exact_is_coalesced": True}),
    (COO, 2 * COO, {}),
    (ONES, torch.ones(2, device="meta"), {"exact_device": True}),
    (quantized(1, 2), quantized(1, 3), {}),
    (quantized(1, 2), T([1.0, 2.0]), {}),
    (T([1.0], dtype=torch.float8_e4m3fn), T([2.0], dtype=torch.float8_e4m3fn), {}),
    (np.array([1.0]), T([1.0]), {}),
    (np.array(["a"]), ["b"], {}),
    (np.array(["1"]), T([1]), {}),
    (T(1), 2, {}),
    (T(2), True, {}),
    (T(1.0), 1.0001, {}),
    (T([1]), [1.5], {}),
    (T([True]), [2], {}),
    (T([255], dtype=torch.uint8), [-1], {}),
    (T([44], dtype=torch.uint8), [300], {}),
    (T([1.0]), [1 + 1j], {}),
    (T([1, 2]), [1, 2, 3], {}),
    (T([1, 2]), [[1], [2]], {}),
    (T([1, 2]), ["1", "2"], {}),
    (T([1, 2]), [1, None], {}),
    (T(1), [1], {}),
    (torch.ones(2, 2), [ONES, ONES + 1], {}),
    (T([1.0]), None, {}),
    (T([1.0]), "a", {}),
    (T([]), "", {}),
    (T([1.0]), {0: 1.0}, {}),
    (T([1.0]), torch.float32, {}),
    (torch.float32, np.float32, {}),
    (torch.float32, torch.float64, {}),
    (torch.device("cpu"), "cpu", {}),
    ([T(1)], [T(2)], {}),
    (NESTED, [ONES, T([2.0])], {}),
    (NESTED, [ONES], {}),
]

# What torch's own TestCase answers otherwise, and why this one does not follow it.
ON_PURPOSE: dict[str, list[tuple[Any, Any]]] = {
    "a number is true or false, but 2 is not True": [(T(2), True), (5, True)],
    "a list is not rounded to the tensor's dtype": [
        (T([1]), [1.5]), (T([True]), [2]), (T([255], dtype=torch.uint8), [-1])
    ],
    "indices that are not summed yet are no difference": [(COO, COO.coalesce())],
    "a list is what it spells inside a container too": [([T([1, 2])], [[1, 2]])],
    "bytes are no list of numbers": [(b"a", [97])],
}  # fmt: skip


def torch_says_equal(x: Any, y: Any) -> bool | None:
    """The verdict of torch's own TestCase; None where it raises an error other than a failure."""
    case = TorchTestCase()
    try:
        case.assertEqual(x, y)
    except AssertionError:
        return False
    except Exception:  # noqa: BLE001 - whatever it is, it is no verdict
        return None
    return True


class VerdictTest(unittest.TestCase):
    def test_equal_pairs(self) -> None:
        for index, (x, y, rules) in enumerate(EQUAL):
            with self.subTest(index=index, x=x, y=y, **rules):
                self.assertIsNone(difference(x, y, **rules))
                self.assertIsNone(difference(y, x, **rules))

    def test_different_pairs(self) -> None:
        for index, (x, y, rules) in enumerate(DIFFERENT):
            with self.subTest(index=index, x=x, y=y, **rules):
                self.assertIsInstance(difference(x, y, **rules), Difference)
                self.assertIsInstance(difference(y, x, **rules), Difference)

    def test_verdicts_are_those_of_torch(self) -> None:
        compared = 0
        for expected, table in ((True, EQUAL), (False, DIFFERENT)):
            for index, (x, y, rules) in enumerate(table):
                theirs = None if rules else torch_says_equal(x, y)
                if theirs is None or self.is_on_purpose(x, y):
                    continue
                compared += 1
                with self.subTest(index=index, x=x, y=y):
                    self.assertEqual(theirs, expected)
        self.assertGreater(compared, 60)

    def test_each_deviation_is_one(self) -> None:
        for reason, pairs in ON_PURPOSE.items():
            for x, y in pairs:
                with self.subTest(reason):
                    self.assertNotEqual(torch_says_equal(x, y), difference(x, y) is None)

    @staticmethod
    def is_on_purpose(x: Any, y: Any) -> bool:
        return any(repr((x, y)) == repr(pair) for pairs in ON_PURPOSE.values() for pair in pairs)


class MistakeTest(unittest.TestCase):
    """Calls that are errors, with a verdict of neither equal nor different."""

    def test_a_number_and_several_elements(self) -> None:
        for several in (T([1, 2]), torch.ones(0), np.ones((2, 1))):
            with self.subTest(shape=several.shape):
                with self.assertRaisesRegex(ValueError, "a number was compared with"):
                    difference(several, 1)
                with self.assertRaisesRegex(ValueError, "a number was compared with"):
                    difference(True, several)


class MessageTest(unittest.TestCase):
    def message(self, x: Any, y: Any) -> str:
        found = difference(x, y)
        assert found is not None
        return str(found)

    def test_tensors_have_torch_words(self) -> None:
        text = self.message({"a": [T([1.0, 2.0])]}, {"a": [T([1.0, 3.0])]})
        for part in ("Tensor-likes are not close", "1 / 2 (50.0%)", "index (1,)", "item ['a'][0]"):
            self.assertIn(part, text)

    def test_sides_are_not_swapped(self) -> None:
        self.assertIn("torch.Size([2]) != torch.Size([1])", self.message([1, 2], T([1])))
        self.assertIn("torch.Size([1]) != torch.Size([2])", self.message(T([1]), [1, 2]))
        self.assertRegex(self.message("a", T([1.0])), r"^'a' != Tensor of shape \(1,\)")

    def test_a_list_of_tensors_names_the_element(self) -> None:
        self.assertIn("item [1]", self.message(torch.ones(2, 2), [ONES, ONES + 1]))

    def test_a_tensor_is_not_printed_where_its_shape_says_it(self) -> None:
        self.assertIn(
            "Tensor of shape (100, 100) and dtype torch.float32", self.message(torch.ones(100, 100), "a")
        )

    def test_a_surplus_tensor_is_not_printed(self) -> None:
        self.assertTrue(self.message([], [torch.ones(9, 9)]).endswith("0 != 1."))


class DTensorTest(unittest.TestCase):
    """DTensors on a mesh that has only this process."""

    def setUp(self) -> None:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)
        self.mesh = init_device_mesh("cpu", (1,))
        self.sharded = distribute_tensor(ONES, self.mesh, [Shard(0)])

    def test_equal(self) -> None:
        self.assertIsNone(difference(self.sharded, distribute_tensor(ONES.clone(), self.mesh, [Shard(0)])))

    def test_different(self) -> None:
        found = difference([self.sharded], [distribute_tensor(ONES + 1, self.mesh, [Shard(0)])])
        assert found is not None
        self.assertEqual(found.path, "[0].to_local()")
        replicated = difference(self.sharded, distribute_tensor(ONES, self.mesh, [Replicate()]))
        self.assertIn("The placements differ: (Shard(dim=0),) != (Replicate(),)", str(replicated))
        longer = difference(self.sharded, distribute_tensor(torch.ones(3), self.mesh, [Shard(0)]))
        self.assertIn("The global shapes differ: (2,) != (3,)", str(longer))

    def test_a_plain_tensor_is_a_guess(self) -> None:
        for x, y in ((self.sharded, ONES), (ONES, self.sharded), ([self.sharded], [ONES])):
            with self.assertRaisesRegex(TypeError, "full_tensor"):
                difference(x, y)


class FastPathTest(unittest.TestCase):
    """``assert_close`` is called only where more than the values of two ordinary tensors can differ."""

    def calls(self, x: Any, y: Any, **rules: Any) -> int:
        with unittest.mock.patch.object(torch.testing, "assert_close") as verdict:
            difference(x, y, **rules)
        return verdict.call_count

    def test_values_skip_it(self) -> None:
        close = ((ONES, ONES.clone()), (ONES, ONES + 1e-6), (T([1]), T([1])), (T(float("nan")),) * 2)
        for x, y in (*close, (ONES, ONES + 1), (T([1]), T([2]))):
            with self.subTest(x=x, y=y):
                self.assertEqual(self.calls(x, y), 0)

    def test_others_do_not(self) -> None:
        class Tagged(torch.Tensor):  # type: ignore[misc]  # torch is untyped to the checker
            pass

        tagged = ONES.as_subclass(Tagged)
        for x, y in ((tagged, tagged), (COO, COO), (ONES, torch.ones(3)), (ONES, ONES.double())):
            with self.subTest(x=x, y=y):
                self.assertEqual(self.calls(x, y), 1)
        self.assertEqual(self.calls(ONES, ONES, exact_stride=True), 1)
        self.assertEqual(self.calls(T([1]), T([2]), atol=0.5, rtol=0.0), 1)


class ArrayTest(unittest.TestCase):
    def test_a_read_only_array_raises_no_warning(self) -> None:
        array = np.ones(2)
        array.flags.writeable = False
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertIsNone(difference(array, torch.ones(2, dtype=torch.float64)))

    def test_comparing_leaves_the_values_alone(self) -> None:
        array = np.arange(4)[::-1]
        kept = array.copy()
        difference(array, T([0, 1, 2, 3]))
        np.testing.assert_array_equal(array, kept)


if __name__ == "__main__":
    unittest.main()
