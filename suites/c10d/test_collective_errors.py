"""What the collectives refuse: dtypes, operations, roots, and arguments that do not fit together.

Each refusal is pinned by the type of the exception and its words, and each test ends by using the group:
what was refused has left nothing behind on any rank.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.c10d.base import declares, gloo_on_cpu, gloo_only, instantiate_world_sizes, needs_all_to_all
from suites.c10d.inputs import COMPLEX, FLOATS, INTEGERS, REFUSED

BITWISE = ("BAND", "BOR", "BXOR")
#: The names that torch's type promotion has for the dtypes without fractions.
SCALAR_NAMES = {
    torch.uint8: "Byte",
    torch.int8: "Char",
    torch.int32: "Int",
    torch.int64: "Long",
    torch.bool: "Bool",
}


class Refusals:
    """Calls that every rank makes alike and that are refused on every rank."""

    def tearDownRank(self):
        self.check_group_works()
        super().tearDownRank()

    def ones(self, size=2, dtype=torch.float32):
        return torch.ones(size, device=self.device).to(dtype)

    def listed(self, size=2, dtype=torch.float32, count=None):
        """Return a list of as many tensors as there are ranks, or ``count``."""
        return [self.ones(size, dtype) for _ in range(self.world_size if count is None else count)]

    def reductions(self, dtype, op):
        """Return every collective that reduces, by name, to be called with this dtype and operation."""
        reduce_op = getattr(dist.ReduceOp, op)
        return {
            "all_reduce": lambda: dist.all_reduce(self.ones(dtype=dtype), reduce_op),
            "all_reduce_coalesced": lambda: dist.all_reduce_coalesced([self.ones(dtype=dtype)], reduce_op),
            "reduce": lambda: dist.reduce(self.ones(dtype=dtype), 0, reduce_op),
            "reduce_scatter": lambda: dist.reduce_scatter(
                self.ones(dtype=dtype), self.listed(dtype=dtype), reduce_op
            ),
            "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(
                self.ones(dtype=dtype), self.ones(2 * self.world_size, dtype), reduce_op
            ),
        }

    def moves(self, dtype):
        """Return every other collective on tensors, by name, to be called with this dtype."""
        listed = self.listed(dtype=dtype) if self.rank == 0 else None
        whole = self.ones(2 * self.world_size, dtype)
        calls = {
            "broadcast": lambda: dist.broadcast(self.ones(dtype=dtype), 0),
            "all_gather": lambda: dist.all_gather(self.listed(dtype=dtype), self.ones(dtype=dtype)),
            "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(whole, self.ones(dtype=dtype)),
            "gather": lambda: dist.gather(self.ones(dtype=dtype), listed, 0),
            "scatter": lambda: dist.scatter(self.ones(dtype=dtype), listed, 0),
            "all_to_all_single": lambda: dist.all_to_all_single(whole.clone(), whole),
        }
        if declares("all_to_all"):
            lists = self.listed(dtype=dtype), self.listed(dtype=dtype)
            calls["all_to_all"] = lambda: dist.all_to_all(*lists)
        return calls

    # dtypes and operations

    @gloo_on_cpu
    def test_dtypes_that_gloo_does_not_have(self):
        for dtype in REFUSED:
            for name, call in {**self.moves(dtype), **self.reductions(dtype, "SUM")}.items():
                with self.refused(RuntimeError, "Invalid scalar type", collective=name, dtype=str(dtype)):
                    call()

    @gloo_only
    def test_gather_complex(self):
        for dtype in COMPLEX:
            with self.refused(RuntimeError, "Invalid scalar type", dtype=str(dtype)):
                self.moves(dtype)["gather"]()

    @gloo_on_cpu
    def test_bitwise_operations_on_fractions(self):
        for dtype in FLOATS:
            for op in BITWISE:
                for name, call in self.reductions(dtype, op).items():
                    with self.refused(
                        RuntimeError,
                        f"Cannot use ReduceOp.{op} with non-integral dtype",
                        collective=name,
                        dtype=str(dtype),
                        op=op,
                    ):
                        call()

    @gloo_on_cpu
    def test_avg_without_fractions(self):
        # It is refused after the sum has been made, when that is to be divided.
        for dtype in (*INTEGERS, torch.bool):
            message = f"result type Float can't be cast to the desired output type {SCALAR_NAMES[dtype]}"
            for name, call in self.reductions(dtype, "AVG").items():
                with self.refused(RuntimeError, message, collective=name, dtype=str(dtype)):
                    call()

    def test_all_reduce_complex_unsupported_ops(self):
        for op in ("PRODUCT", "MIN", "MAX", *BITWISE):
            message = f"all_reduce does not support RedOpType.{op} on complex tensors"
            for name in ("all_reduce", "all_reduce_coalesced"):
                with self.refused(ValueError, message, collective=name, op=op):
                    self.reductions(torch.complex64, op)[name]()

    @gloo_only
    def test_reduce_complex_unsupported_ops(self):
        # C++ says these; it puts the operation's number where its name should be, as a control character.
        for op in ("PRODUCT", "MIN", "MAX", *BITWISE):
            number = chr(int(getattr(dist.ReduceOp, op)))
            for name, said in {
                "reduce": "reduce",
                "reduce_scatter": "all_reduce",
                "reduce_scatter_tensor": "all_reduce",
            }.items():
                message = f"{said} does not support{number}on complex tensors"
                with self.refused(RuntimeError, message, collective=name, op=op):
                    self.reductions(torch.complex64, op)[name]()

    @gloo_only
    def test_premul_sum(self):
        scaled = dist._make_nccl_premul_sum(2.0)
        for name, call in {
            "all_reduce": lambda: dist.all_reduce(self.ones(), scaled),
            "reduce": lambda: dist.reduce(self.ones(), 0, scaled),
            "reduce_scatter": lambda: dist.reduce_scatter(self.ones(), self.listed(), scaled),
        }.items():
            with self.refused(RuntimeError, "Cannot use ReduceOp.PREMUL_SUM with Gloo", collective=name):
                call()

    # roots

    @gloo_only
    def test_root_out_of_range(self):
        for root in (self.world_size, -1):
            for name, call in {
                "broadcast": lambda root=root: dist.broadcast(self.ones(), root),
                "reduce": lambda root=root: dist.reduce(self.ones(), root),
            }.items():
                with self.refused(
                    RuntimeError,
                    f"ProcessGroupGloo::{name}: invalid root rank: {root}",
                    collective=name,
                    root=root,
                ):
                    call()

    def test_scatter_checks(self):
        if self.rank == 0:
            with self.refused(ValueError, "Argument ``scatter_list`` must be specified on source rank."):
                dist.scatter(self.ones(), None, 0)
        else:
            message = "Argument ``scatter_list`` must NOT be specified on non-source ranks."
            with self.refused(ValueError, message):
                dist.scatter(self.ones(), self.listed(), 0)

    def test_gather_checks(self):
        if self.rank == 0:
            with self.refused(ValueError, "Argument ``gather_list`` must be specified on destination rank."):
                dist.gather(self.ones(), None, 0)
        else:
            message = "Argument ``gather_list`` must NOT be specified on non-destination ranks."
            with self.refused(ValueError, message):
                dist.gather(self.ones(), self.listed(), 0)

    # arguments that are not what they should be

    def test_no_tensor(self):
        listed, to = self.listed(), self.listed() if self.rank == 0 else None
        calls = [
            ("tensor", lambda: dist.all_reduce([1.0])),
            ("tensor", lambda: dist.broadcast([1.0], 0)),
            ("tensor", lambda: dist.reduce([1.0], 0)),
            ("tensor", lambda: dist.all_gather(listed, [1.0])),
            ("tensor", lambda: dist.gather([1.0], to, 0)),
            ("tensor", lambda: dist.scatter([1.0], to, 0)),
            ("input_tensor", lambda: dist.all_gather_into_tensor(self.ones(), [1.0])),
            ("output_tensor", lambda: dist.all_gather_into_tensor([1.0], self.ones())),
            ("output", lambda: dist.reduce_scatter([1.0], listed)),
            ("output", lambda: dist.reduce_scatter_tensor([1.0], self.ones())),
            ("input", lambda: dist.reduce_scatter_tensor(self.ones(), [1.0])),
            ("output", lambda: dist.all_to_all_single([1.0], self.ones())),
            ("input", lambda: dist.all_to_all_single(self.ones(), [1.0])),
        ]
        for parameter, call in calls:
            with self.refused(
                TypeError, f"Expected parameter `{parameter}` of type torch.Tensor", parameter=parameter
            ):
                call()

    def test_no_tensor_list(self):
        numbers = [1.0] * self.world_size
        calls = [
            ("tensor_list", lambda: dist.all_gather(tuple(self.listed()), self.ones())),
            ("input_list", lambda: dist.reduce_scatter(self.ones(), numbers)),
            ("output_tensor_list", lambda: dist.all_to_all(self.ones(), self.listed())),
            ("input_tensor_list", lambda: dist.all_to_all(self.listed(), numbers)),
            ("tensor", lambda: dist.all_reduce_coalesced(numbers)),
            ("input_tensor_list", lambda: dist.all_gather_coalesced([self.listed()], numbers)),
        ]
        if self.rank == 0:
            calls.append(("gather_list", lambda: dist.gather(self.ones(), numbers, 0)))
            calls.append(("scatter_list", lambda: dist.scatter(self.ones(), numbers, 0)))
        for parameter, call in calls:
            with self.refused(
                TypeError, f"Expected parameter `{parameter}` of type List[torch.Tensor]", parameter=parameter
            ):
                call()

    def test_tensor_dtype_mismatch(self):
        single, half = self.ones(), self.ones(dtype=torch.float16)
        singles, halves = self.listed(), self.listed(dtype=torch.float16)
        mixed = [half, *singles[1:]]
        calls = {
            "all_gather": lambda: dist.all_gather(mixed, single),
            "all_gather of another": lambda: dist.all_gather(singles, half),
            "reduce_scatter": lambda: dist.reduce_scatter(single, mixed),
            "reduce_scatter into another": lambda: dist.reduce_scatter(half, singles),
            "all_to_all": lambda: dist.all_to_all(mixed, singles),
            "all_to_all of another": lambda: dist.all_to_all(singles, mixed),
            "all_to_all_single": lambda: dist.all_to_all_single(half, single),
            "scatter": lambda: dist.scatter(single, mixed),
            "scatter into another": lambda: dist.scatter(half, singles),
            "gather": lambda: dist.gather(single, mixed),
            "gather of another": lambda: dist.gather(half, singles),
            "all_reduce_coalesced": lambda: dist.all_reduce_coalesced([single, half]),
            "all_gather_coalesced": lambda: dist.all_gather_coalesced([halves], [*singles[1:], half]),
        }
        for name, call in calls.items():
            with self.refused(ValueError, "Invalid usage of tensors with different dtypes", call=name):
                call()

    @gloo_only
    def test_all_gather_into_tensor_of_another_dtype(self):
        with self.refused(RuntimeError, "ProcessGroupGloo::allgather: invalid tensor type at index 0"):
            dist.all_gather_into_tensor(self.ones(2 * self.world_size, torch.float64), self.ones())

    # sizes that do not fit; said by the rank that has them, before anything is sent

    @gloo_only
    def test_list_lengths(self):
        count = self.world_size + 1
        expected = f"expected length {self.world_size}, got {count}"
        calls = {
            f"allgather: invalid output tensor list at index 0 ({expected})": lambda: dist.all_gather(
                self.listed(count=count), self.ones()
            ),
            "invalid input tensor list size, must be world size": lambda: dist.reduce_scatter(
                self.ones(), self.listed(count=count)
            ),
        }
        if declares("all_to_all"):
            message = f"alltoall: input tensor list size {count} does not match world size"
            calls[message] = lambda: dist.all_to_all(self.listed(count=count), self.listed(count=count))
        for message, call in calls.items():
            with self.refused(RuntimeError, message, expected=message):
                call()

    @gloo_only
    def test_list_lengths_of_the_root(self):
        too_many, size = self.listed(count=self.world_size + 1), self.world_size + 1
        if self.rank == 0:
            with self.refused(RuntimeError, f"ProcessGroupGloo::gather: Incorrect output list size {size}."):
                dist.gather(self.ones(), too_many, 0)
            with self.refused(RuntimeError, f"ProcessGroupGloo::scatter: Incorrect input list size {size}."):
                dist.scatter(self.ones(), too_many, 0)

    @gloo_only
    def test_sizes(self):
        message = "ProcessGroupGloo::allgather: invalid tensor size at index 0 (expected (2), got (3))"
        for name, call in {
            "all_gather": lambda: dist.all_gather(self.listed(3), self.ones()),
            "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(
                self.ones(3 * self.world_size), self.ones()
            ),
        }.items():
            with self.refused(RuntimeError, message, collective=name):
                call()

    @gloo_only
    def test_sizes_of_reduce_scatter(self):
        with self.refused(
            RuntimeError, "Check failed: outputs[0].sizes().vec() == inputs[0][i].sizes().vec()"
        ):
            dist.reduce_scatter(self.ones(), self.listed(3))
        with self.refused(RuntimeError, "Check failed: outputShape[0] * worldSize == inputShape[0]"):
            dist.reduce_scatter_tensor(self.ones(), self.ones(2 * self.world_size + 1))

    @gloo_only
    def test_sizes_of_the_root(self):
        if self.rank == 0:
            message = "invalid tensor size at index 0 (expected (2), got (3))"
            with self.refused(RuntimeError, f"ProcessGroupGloo::gather: {message}"):
                dist.gather(self.ones(), self.listed(3), 0)
            with self.refused(RuntimeError, f"ProcessGroupGloo::scatter: {message}"):
                dist.scatter(self.ones(), self.listed(3), 0)

    @needs_all_to_all
    @gloo_only
    def test_all_to_all_of_uneven_sizes(self):
        # Other backends move these; with gloo only all_to_all_single has uneven parts.
        uneven = [self.ones(rank + 1) for rank in range(self.world_size)]
        message = "ProcessGroupGloo::alltoall: invalid tensor size at index 1 (expected (1), got (2))"
        with self.refused(RuntimeError, message):
            dist.all_to_all([torch.empty_like(one) for one in uneven], uneven)

    @gloo_only
    def test_all_to_all_single_splits(self):
        whole = self.ones(self.world_size)
        with self.refused(RuntimeError, "Number of tensor splits not equal to group size"):
            dist.all_to_all_single(whole.clone(), whole, [self.world_size], [self.world_size])
        with self.refused(RuntimeError, "Split sizes doesn't match total dim 0 size"):
            dist.all_to_all_single(whole.clone(), whole, [2] * self.world_size, [2] * self.world_size)

    # forms that gloo does not have

    @gloo_on_cpu
    def test_all_gather_into_a_stack(self):
        # The documentation has two forms of output, joined or stacked; gloo has the joined one.
        message = "ProcessGroupGloo::allgather: invalid tensor size at index 0 (expected (2), got (1, 2))"
        with self.refused(RuntimeError, message):
            dist.all_gather_into_tensor(torch.zeros(self.world_size, 2), self.ones())

    @gloo_only
    def test_all_gather_of_scalars_into_a_tensor(self):
        message = "ProcessGroupGloo::allgather: invalid tensor size at index 0 (expected (), got (1))"
        with self.refused(RuntimeError, message):
            dist.all_gather_into_tensor(torch.zeros(self.world_size), torch.tensor(1.0))

    @gloo_only
    def test_split_group(self):
        message = "No device associated with the default pg, not safe to split any process groups"
        with self.refused(RuntimeError, message):
            dist.split_group(None, [list(range(self.world_size))])


# Nothing is sent, so two sizes show whether all ranks refuse alike.
instantiate_world_sizes(globals(), Refusals, sizes=(2, 3))


if __name__ == "__main__":
    run_tests()
