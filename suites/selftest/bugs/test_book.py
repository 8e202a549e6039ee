"""Tests how an entry is read from a docstring, and by what it knows its bug again."""

from __future__ import annotations

import unittest

from harness.errors import UsageError
from harness.fuzzing.signature import Kind
from suites.bugs import book

FIELDS = {
    "kind": "silently wrong",
    "expected": "a sum\n  of two",
    "happens": "none",
    "fails": "silently wrong: sum",
    "since": "2.11",
    "reach": "public API",
    "fuzzer": "sums",
    "upstream": "none found",
    "who": "everybody",
}


def script(**changed: str | None) -> str:
    """A script whose docstring has these fields; one of None is left out."""
    fields = {name: text for name, text in {**FIELDS, **changed}.items() if text is not None}
    return 'r"""A sum is wrong.\n\n' + "\n".join(f"{k}: {v}" for k, v in fields.items()) + '\n"""\n'


class ReadTest(unittest.TestCase):
    def test_fields(self) -> None:
        entry = book.read("sums", script(seen="one|two"))
        self.assertEqual((entry.title, entry.kind), ("A sum is wrong.", Kind.WRONG))
        self.assertEqual(entry.expected, "a sum of two")
        self.assertEqual((entry.seen, entry.before), (("one|two",), None))
        self.assertEqual(entry.path.name, "sums.py")

    def test_several_patterns(self) -> None:
        entry = book.read("sums", script(seen="one\nseen: two"))
        self.assertEqual(entry.seen, ("one", "two"))

    def test_refused(self) -> None:
        for text, message in (
            ("import torch\n", "no docstring"),
            (script(kind="odd"), "kind 'odd'"),
            (script(who=None), "lacks who"),
            (script(why="so"), "unknown why"),
            (script(who="all\nwho: none"), "twice who"),
            ('"""Title.\n\nno field\n"""', "'no field' is neither"),
        ):
            with self.subTest(message=message), self.assertRaisesRegex(UsageError, message):
                book.read("sums", text)

    def test_serious(self) -> None:
        for kind, reach, serious in (
            ("silently wrong", "public API", True),
            ("process dies", "public API, with fork", True),
            ("hangs", "public API", True),
            ("refused", "public API", False),
            ("silently wrong", "internal entry: aot_function", False),
        ):
            with self.subTest(kind=kind, reach=reach):
                self.assertEqual(book.read("sums", script(kind=kind, reach=reach)).serious, serious)

    def test_releases(self) -> None:
        self.assertEqual(book.read("s", script()).releases, "2.11 and later")
        old = book.read("s", script(before="2.12"))
        self.assertEqual(old.releases, "2.11 to before 2.12")
        self.assertTrue(book.read("s", script(since="2.0")).is_here())
        self.assertFalse(book.read("s", script(since="2.0", before="2.1")).is_here())


class KnownTest(unittest.TestCase):
    def test_first_that_knows(self) -> None:
        one = book.read("one", script(seen="sums: .*odd"))
        two = book.read("two", script(seen=r"five \| 2"))
        self.assertIs(book.known("sums: silently wrong: five | 2 + 3", [one, two]), two)
        self.assertIs(book.known("sums: silently wrong: odd five | 2", [one, two]), one)
        self.assertIsNone(book.known("sums: silently wrong: six | 2", [one, two]))

    def test_the_whole_book_is_read(self) -> None:
        self.assertEqual(len(book.entries()), len(list(book.ENTRIES.glob("*.py"))))
        titles = [entry.title for entry in book.entries()]
        self.assertEqual(len(titles), len(set(titles)))


class PatternsTest(unittest.TestCase):
    """What entries know again: what the fuzzers saw of their bug, and not what resembles it."""

    def test_known_and_not_known(self) -> None:
        plain = "torch.Size([#, #]), but torch.Size([#]) in plain"
        unsynced = "silently wrong: gradient of first.weight differs"
        written = "silently wrong: argument #: values"
        mixed = "got mixed torch.Tensor and DTensor, need to convert"
        expand = "Sharding propagation failed for aten.expand.default"
        assigned = "attempting to assign a gradient with dtype 'c#::BFloat#' to a tensor"
        viewed = "Sharding propagation failed for aten.view.default"
        other = "is the object of nothing compiled, input # (a) in eager"
        values = "silently wrong: output #: values"
        table = [
            ("dtensor_squeeze_in_place", f"dtensor: silently wrong: shape of v# differs: {plain} | {{0}}.squeeze_()", True),  # noqa: E501
            ("dtensor_squeeze_in_place", f"dtensor: silently wrong: shape of v# differs: {plain} | {{0}} @ {{1}}", True),  # noqa: E501
            ("dtensor_squeeze_in_place", f"dtensor: silently wrong: shape of v# differs: {plain} | {{0}}.mean(0); torch.nn.functional.linear({{0}}, {{1}})", True),  # noqa: E501
            ("dtensor_squeeze_in_place", "dtensor: refused: IndexError: tuple index out of range | {0}.squeeze_(); {0}.chunk(2)[1]", True),  # noqa: E501
            ("dtensor_squeeze_in_place", "dtensor: internal assertion: IndexError: Dimension out of range (expected to be in range of [#, #], but got #) | Replicate, Shard; torch.nn.functional.linear({0}, {1}); {0}.addcmul_({1}, {1})", True),  # noqa: E501
            ("dtensor_out_of_another_shape", "dtensor: refused: RuntimeError: output with shape [#, #] doesn't match the broadcast shape [#, #] Sharding | Replicate; torch.add({1}, 1, out={0}); {0}.copy_({1})", True),  # noqa: E501
            ("dtensor_out_of_another_shape", "dtensor: refused: RuntimeError: output with shape [#, #] doesn't match the broadcast shape [#, #] Sharding | Replicate; {0}.copy_({1})", False),  # noqa: E501
            ("dtensor_reshape_after_redistribute", "dtensor: refused: RuntimeError: view size is not compatible with input | uneven Shard; redistribute; {0}.view(-1)", True),  # noqa: E501
            ("dtensor_reshape_after_redistribute", "dtensor: refused: RuntimeError: view size is not compatible with input | uneven Shard; {0}.view(-1)", False),  # noqa: E501
            ("compiled_gradient_lost_in_detached_alias", "views: silently wrong: output #: requires_grad False compiled, True in eager | t0 = a[1:]; t1 = t0.detach(); t2 = t1[1:]; t2.copy_(t0); return t1 | y0[:, 0]", True),  # noqa: E501
            ("compiled_gradient_lost_in_detached_alias", "views: silently wrong: output #: requires_grad False compiled, True in eager | t0 = a[1:]; t0.copy_(a); return t0 | y0[:, 0]", False),  # noqa: E501
            ("dtensor_squeeze_in_place", "dtensor: silently wrong: value of v# differs | {0}.squeeze_()", False),  # noqa: E501
            ("dtensor_mean_of_uneven_shards", "dtensor: silently wrong: value of v# differs, (Partial(avg),) | uneven Shard; torch.nn.functional.mse_loss({0}, {1})", True),  # noqa: E501
            ("dtensor_mean_of_uneven_shards", "dtensor: silently wrong: value of v# differs, (Partial(avg),) | Shard; torch.nn.functional.mse_loss({0}, {1})", False),  # noqa: E501
            ("dtensor_mean_of_uneven_shards", "dtensor: silently wrong: dtype of v# differs | uneven Shard; torch.nn.functional.mse_loss({0}, {1})", False),  # noqa: E501
            ("dtensor_fill_partial", "dtensor: silently wrong: value of v# differs, (Partial(sum),) | Shard; {0}.sum(0); {0}.fill_(3)", True),  # noqa: E501
            ("dtensor_fill_partial", "dtensor: silently wrong: value of v# differs, (Shard(dim=#),) | Shard; {0}.sum(0); {0}.fill_(3)", False),  # noqa: E501
            ("dtensor_linear_of_nothing", "dtensor: refused: RuntimeError: integer modulo by zero Sharding propagation failed for aten._unsafe_view.default(Spec) | Replicate; {0} @ {1}.t()", True),  # noqa: E501
            ("dtensor_linear_of_nothing", "dtensor: refused: RuntimeError: integer modulo by zero Sharding propagation failed for aten.view.default(Spec) | Replicate; {0}.view(-1)", False),  # noqa: E501
            ("compiled_inference_mode_breaks_the_process", "compile: internal assertion: RuntimeError: state INTERNAL ASSERT FAILED at \"PATH\":#, please report a bug to PyTorch. Hit PythonDispatcher dispatch key but | y0", True),  # noqa: E501
            ("compiled_inference_mode_breaks_the_process", "compile: internal assertion: RuntimeError: state INTERNAL ASSERT FAILED at \"PATH\":#, please report a bug to PyTorch. Something else | y0", False),  # noqa: E501
            ("dtensor_squeeze_in_place", "dtensor: hangs: timed out | {0}.squeeze_(); {0} @ {1}", False),
            ("dtensor_squeeze_in_place", "dtensor: silently wrong: shape of v# differs: torch.Size([]), but torch.Size([#]) in plain | {0} @ {1}", False),  # noqa: E501
            ("dtensor_write_to_base_of_view", "dtensor: silently wrong: value of v# differs, (Shard(dim=#),) | {0}.narrow(0, 1, 2); {0}.mul_(2)", True),  # noqa: E501
            ("dtensor_write_to_base_of_view", "dtensor: silently wrong: value of v# differs | {0}.mul_(2); {0}.add_(1)", False),  # noqa: E501
            ("dtensor_write_to_base_of_view", "dtensor: silently wrong: value of v# differs | {0} + 1; {0}.mul_(2)", False),  # noqa: E501
            ("ddp_sparse_gradient_divided_in_place", f"ddp: {unsynced} | linear; sparse; step(1)", True),
            ("ddp_sparse_gradient_divided_in_place", f"ddp: {unsynced} | sparse; output; static_graph; step(1)", False),  # noqa: E501
            ("ddp_sparse_gradient_divided_in_place", f"ddp: {unsynced} | linear; step(1)", False),
            ("compiled_write_under_no_grad", "compile: silently wrong: argument #: gradient of leaf # | t0 = a.view_as(a); with torch.inference_mode(): b.mul_(2); return b | y0 | unrecorded writes to b", True),  # noqa: E501
            ("compiled_write_under_no_grad", "compile: silently wrong: argument #: gradient of leaf # | t0 = a + 1; with torch.no_grad(): t0.mul_(2); return t0 | y0", False),  # noqa: E501
            ("compiled_write_under_no_grad", "compile: silently wrong: argument #: values | with torch.no_grad(): b.mul_(2); return gradient | y0 | unrecorded writes to b", False),  # noqa: E501
            ("tcp_store_get_of_a_queue", "stores: silently wrong: no order of the calls gives what they gave: get, queue_push | tcp; threads; get || queue_push", True),  # noqa: E501
            ("tcp_store_get_of_a_queue", "stores: silently wrong: no order of the calls gives what they gave: get, queue_push | hash; threads; get || queue_push", False),  # noqa: E501
            ("dtensor_reshape_of_nothing", "dtensor: hangs: timed out | Replicate; {0} @ {1}.t()", True),
            ("dtensor_reshape_of_nothing", "dtensor: hangs: timed out | Replicate; {0}.sum(0)", False),
            ("dtensor_cat_with_nothing", "dtensor: internal assertion: AssertionError: Sharding dim # greater than tensor ndim # | Replicate, uneven Shard; torch.cat([{0}, {1}])", True),  # noqa: E501
            ("dtensor_cat_with_nothing", "dtensor: internal assertion: AssertionError: Sharding dim # greater than tensor ndim # | Shard; torch.stack([{0}, {1}])", False),  # noqa: E501
            ("tcp_store_queue_push_wakes_again", "stores: silently wrong: no order of the calls gives what they gave: get, set | tcp; ranks; queue_push; get; add; queue_push || get; get", True),  # noqa: E501
            ("tcp_store_queue_push_wakes_again", "stores: silently wrong: no order of the calls gives what they gave: get, set | tcp; ranks; queue_push; get; add || get; get", False),  # noqa: E501
            ("tcp_store_queue_push_wakes_again", "stores: silently wrong: no order of the calls gives what they gave: get, set | legacy; ranks; queue_push; queue_push || get; get", False),  # noqa: E501
            ("file_store_client_dies_in_a_write", "stores: hangs: timed out | file; turns; die; get", True),
            ("file_store_client_dies_in_a_write", "stores: hangs: timed out | file; turns; set; get", False),
            ("file_store_append_of_the_same", "stores: silently wrong: get gives a value for a value | file; turns; set; append; get", True),  # noqa: E501
            ("file_store_append_of_the_same", "stores: silently wrong: get gives a value for a value | tcp; turns; set; append; get", False),  # noqa: E501
            ("file_store_append_of_the_same", "stores: silently wrong: get gives a value for a value | file; turns; set; add; get", False),  # noqa: E501
            ("file_store_append_of_the_same", "stores: silently wrong: no order of the calls gives what they gave: append, compare_set | prefix file; ranks; append || compare_set", True),  # noqa: E501
            ("fsdp1_optimizer_state_of_no_elements", "fsdp1: internal assertion: KeyError: 'step' | tiny; empty; mesh(1x2); orig; adam; step(1, restores full)", True),  # noqa: E501
            ("fsdp1_optimizer_state_of_no_elements", "fsdp1: internal assertion: KeyError: 'step' | tiny; mesh(1x2); orig; adam; step(1, restores full)", False),  # noqa: E501
            ("fsdp1_shared_parameter_without_sync", f"fsdp1: refused: RuntimeError: {assigned} | shared; shared; mesh(2); dtype=bfloat16; orig; strategy=NO_SHARD; sgd; step(2, once)", True),  # noqa: E501
            ("fsdp1_shared_parameter_without_sync", f"fsdp1: refused: RuntimeError: {assigned} | shared; shared; mesh(2); dtype=bfloat16; orig; sgd; step(2, each)", False),  # noqa: E501
            ("fsdp1_shared_parameter_without_sync", f"fsdp1: refused: RuntimeError: {assigned} | tied; tied; mesh(2); dtype=float32; orig; strategy=NO_SHARD; sgd; step(2, once)", True),  # noqa: E501
            ("fsdp1_shared_parameter_without_sync", f"fsdp1: refused: RuntimeError: {assigned} | shared; linear; mesh(2); dtype=bfloat16; orig; sgd; step(2, once)", False),  # noqa: E501
            ("dtensor_gradient_of_infinity_norm", "dtensor: silently wrong: value of v#.grad differs, (Shard(dim=#),) | torch.linalg.vector_norm({0}, ord=float('inf')); backward", True),  # noqa: E501
            ("dtensor_gradient_of_infinity_norm", "dtensor: silently wrong: value of v# differs, (Shard(dim=#),) | torch.linalg.vector_norm({0}, ord=float('inf')); backward", False),  # noqa: E501
            ("dtensor_product_with_any", "dtensor: silently wrong: value of v# differs, (Partial(sum),) | ({0} > 0.3).any(0); {0}.sum()", True),  # noqa: E501
            ("dtensor_product_with_any", "dtensor: silently wrong: value of v# differs, (Partial(sum),) | ({0} > 0.3).any(0); {0} / 4", True),  # noqa: E501
            ("dtensor_product_with_any", "dtensor: silently wrong: value of v# differs, (Partial(sum),) | {0}.sum()", False),  # noqa: E501
            ("dtensor_product_with_any", "dtensor: silently wrong: value of v# differs, (Partial(sum),) | ({0} > 0.3).any(0); {0}.float(); backward", True),  # noqa: E501
            ("dtensor_product_with_any", "dtensor: silently wrong: value of v# differs, (Partial(sum),) | ({0} > 0.3).any(0); {0}.sum(0); {1}.copy_({0})", True),  # noqa: E501
            ("dtensor_product_with_any", "dtensor: silently wrong: value of v# differs, (Partial(sum),) | ({0} > 0.3).any(0); torch.cat([{0}, {1}])", True),  # noqa: E501
            ("dtensor_product_with_any", "dtensor: silently wrong: value of v# differs, (Partial(sum),) | ({0} > 0.3).any(0); {0}.cumsum(0)", False),  # noqa: E501
            ("dtensor_cat_of_unlike_partials", "dtensor: internal assertion: AssertionError: Redistribution from one partial type (P(sum)) to another (_NormP(#)) is unsupported. | Partial(sum), Shard; torch.linalg.vector_norm({0}, dim=0); torch.cat([{0}, {1}], -1); backward", True),  # noqa: E501
            ("dtensor_cat_of_unlike_partials", "dtensor: internal assertion: AssertionError: Redistribution from one partial type (P(sum)) to another (_NormP(#)) is unsupported. | Partial(sum), Shard; torch.linalg.vector_norm({0}, dim=0); {0}.copy_({1})", True),  # noqa: E501
            ("dtensor_cat_of_unlike_partials", "dtensor: internal assertion: AssertionError: Redistribution from one partial type (P(sum)) to another (_NormP(#)) is unsupported. | Partial(sum), Shard; torch.linalg.vector_norm({0}, dim=0); {0} + {1}", False),  # noqa: E501
            ("dtensor_cat_with_partial_norms", "dtensor: silently wrong: value of v# differs, (_NormPartial(#),) | Replicate, Shard; torch.linalg.vector_norm({0}, dim=0); torch.cat([{0}, {1}]); backward", True),  # noqa: E501
            ("dtensor_cat_with_partial_norms", "dtensor: silently wrong: value of v# differs, (Partial(max),) | Replicate, Shard; torch.linalg.vector_norm({0}, dim=0); torch.cat([{0}, {1}]); backward", False),  # noqa: E501
            ("compiled_view_of_written_strided_argument", "views: silently wrong: output #: stride (#, #) compiled, (#, #) in eager | a.zero_(); t0 = a.detach(); t1 = t0.expand(2, *t0.shape); return t1 | y0[:, 0] | dynamic=True", True),  # noqa: E501
            ("compiled_view_of_written_strided_argument", "views: silently wrong: output #: stride (#, #) compiled, (#, #) in eager | a.zero_(); t0 = a + 1; t1 = t0.expand(2, *t0.shape); return t1 | y0[:, 0] | dynamic=True", False),  # noqa: E501
            ("dtensor_embedding_of_empty_shards", "dtensor: refused: RuntimeError: index_select(): self indexing axis dim should be positive | Replicate, uneven Shard; torch.nn.functional.embedding({1}, {0})", True),  # noqa: E501
            ("dtensor_embedding_of_empty_shards", "dtensor: refused: RuntimeError: index_select(): self indexing axis dim should be positive | Replicate, uneven Shard; {0}[{1}]", False),  # noqa: E501
            ("dtensor_embedding_reduced_twice", "dtensor: internal assertion: AssertionError: | Replicate, Shard; torch.nn.functional.embedding({1}, {0}); backward", True),  # noqa: E501
            ("dtensor_embedding_reduced_twice", "dtensor: internal assertion: AssertionError: odd | Replicate, Shard; torch.nn.functional.embedding({1}, {0}); backward", False),  # noqa: E501
            ("dtensor_embedding_reduced_twice", "dtensor: internal assertion: AssertionError: | Replicate, Shard; {0}.sum(0); backward", False),  # noqa: E501
            ("dtensor_index_by_mask", "dtensor: refused: RuntimeError: aten.nonzero.default Sharding propagation failed for aten.index.Tensor(Spec | ({0} > 0.3).any(0); {0}[{1}]; backward", True),  # noqa: E501
            ("dtensor_index_by_mask", "dtensor: refused: RuntimeError: aten.nonzero.default Sharding propagation failed for aten.index.Tensor(Spec | ({0} > 0.3).any(0); {0}[1:]", False),  # noqa: E501
            ("dtensor_sum_with_replicated_integers", "dtensor: silently wrong: dtype of v# differs: torch.float#, but torch.int# in plain | Shard; torch.dot({0}, {1}); torch.relu({0}); {0} + {1}", True),  # noqa: E501
            ("dtensor_sum_with_replicated_integers", "dtensor: silently wrong: dtype of v# differs: torch.float#, but torch.int# in plain | Replicate, Shard; {0}.sum(0); torch.stack([{0}, {1}])", True),  # noqa: E501
            ("dtensor_sum_with_replicated_integers", "dtensor: silently wrong: dtype of v# differs: torch.float#, but torch.int# in plain | Replicate, Shard; {0} + {1}; {0}.sum(0)", False),  # noqa: E501
            ("dtensor_sum_with_replicated_integers", "dtensor: silently wrong: dtype of v# differs: torch.float#, but torch.float# in plain | Shard; {0}.sum(0); {0} + {1}", False),  # noqa: E501
            ("dtensor_sum_with_replicated_integers", "dtensor: silently wrong: dtype of v# differs: torch.float#, but torch.int# in plain | Replicate, Shard; {0}.sum(0); torch.nn.functional.linear({0}, {1}, {2})", True),  # noqa: E501
            ("dtensor_sum_with_replicated_integers", "dtensor: refused: RuntimeError: mat# and mat# must have the same dtype, but got Float and Long | Replicate, Shard; {0}.sum(0); torch.addmm({0}, {1}, {2})", True),  # noqa: E501
            ("dtensor_sum_with_replicated_integers", "dtensor: refused: RuntimeError: mat# and mat# must have the same dtype, but got Float and Long | Replicate, Shard; {0}.sum(0); {0} @ {1}", False),  # noqa: E501
            ("dtensor_sum_with_replicated_integers", "dtensor: silently wrong: value of v# differs, (Partial(sum),) | Replicate, Shard; {0}.sum(0); {0}.copy_({1})", True),  # noqa: E501
            ("dtensor_sum_with_replicated_integers", "dtensor: refused: RuntimeError: result type Float can't be cast to the desired output type Long | Replicate, Shard; {0}.sum(0); {0}.add_({1})", True),  # noqa: E501
            ("dtensor_sum_with_replicated_integers", "dtensor: refused: RuntimeError: self and mat# must have the same dtype, but got Float and Long | Replicate, Shard; torch.addmm({0}, {1}, {2})", True),  # noqa: E501
            ("dtensor_sum_with_replicated_integers", "dtensor: silently wrong: dtype of v# differs: torch.float#, but torch.int# in plain | Replicate, uneven Shard; torch.nn.functional.linear({0}, {1}, {2})", True),  # noqa: E501
            ("dtensor_sum_with_replicated_integers", "dtensor: silently wrong: dtype of v# differs: torch.float#, but torch.int# in plain | Replicate, uneven Shard; torch.nn.functional.linear({0}, {1})", False),  # noqa: E501
            ("dtensor_sum_with_replicated_integers", "dtensor: refused: RuntimeError: self and mat# must have the same dtype, but got Float and Long | Replicate, Shard; torch.count_nonzero({0}); torch.nn.functional.linear({0}, {1}, {2})", True),  # noqa: E501
            ("dtensor_sum_with_replicated_integers", "dtensor: silently wrong: dtype of v# differs: torch.float#, but torch.float# in plain | Partial(sum), Replicate; ({0} > 0.3).any(0); {0} + {1}", True),  # noqa: E501
            ("dtensor_item_of_partial", "dtensor: refused: AttributeError: 'LocalIntNode' object has no attribute 'guard_int' | Partial(sum), Replicate; {0}.sum(); {0}[{1}]", True),  # noqa: E501
            ("dtensor_item_of_partial", "dtensor: refused: AttributeError: 'LocalIntNode' object has no attribute 'guard_int' | Partial(sum), Replicate; {0}.sum(); {0}[1:]", False),  # noqa: E501
            ("dtensor_item_of_partial", "dtensor: silently wrong: value of v# differs, (Replicate(),) | Replicate, Shard; {0}.sum(); {0}[{1}]", True),  # noqa: E501
            ("dtensor_item_of_partial", "dtensor: silently wrong: value of v# differs, (Replicate(),) | Replicate, Shard; {0}[{1}]", False),  # noqa: E501
            ("dtensor_item_of_partial", "dtensor: refused: IndexError: index # is out of bounds for dimension # with size # | Replicate, Shard; {0}.sum(); {0}[{1}]", True),  # noqa: E501
            ("dtensor_backward_of_matmul_by_batch", "dtensor: refused: RuntimeError: shape '[#, #]' is invalid for input of size # | Replicate, uneven Shard; {0} @ {1}; backward", True),  # noqa: E501
            ("dtensor_backward_of_matmul_by_batch", "dtensor: refused: RuntimeError: shape '[#, #]' is invalid for input of size # | Replicate, uneven Shard; {0} @ {1}", False),  # noqa: E501
            ("dtensor_backward_of_matmul_by_batch", "dtensor: refused: RuntimeError: shape '[#, #]' is invalid for input of size # | Replicate, uneven Shard; {0}.sum(0); backward", False),  # noqa: E501
            ("dtensor_squeeze_in_place", "dtensor: internal assertion: IndexError: Dimension out of range (expected to be in range of [#, #], but got #) | Replicate, uneven Shard; torch.nn.functional.linear({0}, {1}, {2})", True),  # noqa: E501
            ("dtensor_squeeze_in_place", "dtensor: internal assertion: IndexError: Dimension out of range (expected to be in range of [#, #], but got #) | Replicate, uneven Shard; {0}.sum(0)", False),  # noqa: E501
            ("dtensor_backward_of_redistributed_reduction", "dtensor: internal assertion: AssertionError: Redistribution from one partial type (P(sum)) to another (P(max)) is unsupported. | Partial(max), Replicate, uneven Shard; redistribute; {0} + {1}; backward", True),  # noqa: E501
            ("dtensor_infinity_norm_of_partial_maximum", "dtensor: silently wrong: value of v# differs, (Replicate(), Partial(max)) | Partial(max), Replicate; torch.linalg.vector_norm({0}, ord=float('inf'))", True),  # noqa: E501
            ("dtensor_sum_of_partial_norms", "dtensor: silently wrong: value of v# differs, (_NormPartial(#),) | Shard; torch.linalg.vector_norm({0}, dim=0); {0}.sum()", True),  # noqa: E501
            ("dtensor_backward_of_redistributed_reduction", "dtensor: internal assertion: AssertionError: Redistribution from one partial type (P(sum)) to another (_NormP(#)) is unsupported. | uneven Shard; torch._foreach_norm([{0}, {1}])[0]; redistribute; {0} - {1}; backward", True),  # noqa: E501
            ("dtensor_backward_of_redistributed_reduction", "dtensor: internal assertion: AssertionError: Redistribution from one partial type (P(sum)) to another (P(max)) is unsupported. | uneven Shard; {0}.max(); redistribute; {0} * {1}; backward", True),  # noqa: E501
            ("dtensor_backward_of_redistributed_reduction", "dtensor: internal assertion: AssertionError: Redistribution from one partial type (P(sum)) to another (P(max)) is unsupported. | uneven Shard; {0}.max(); {0} * {1}; backward", False),  # noqa: E501
            ("dtensor_backward_of_cat_of_nothing", f"dtensor: refused: RuntimeError: aten.add.Tensor {mixed} | {{0}}.mean(0); torch.cat([{{0}}, {{1}}]); backward", True),  # noqa: E501
            ("dtensor_backward_of_cat_of_nothing", f"dtensor: refused: RuntimeError: aten.add.Tensor {mixed} | {{0}}.mean(0); backward", False),  # noqa: E501
            ("dtensor_expand_of_sharded_row", f"dtensor: refused: RuntimeError: # {expand}(Spec(f#[#, #](RS(#))), [#, #]) | torch.nn.functional.mse_loss({{0}}, {{1}})", True),  # noqa: E501
            ("dtensor_expand_of_sharded_row", f"dtensor: refused: RuntimeError: # {expand}(Spec(f#[#, #](RR)), [#, #]) | torch.nn.functional.mse_loss({{0}}, {{1}})", False),  # noqa: E501
            ("dtensor_flatten_of_strided_shard", f"dtensor: refused: RuntimeError: # {viewed}(Spec(f#[#, #](_S(#, #))), [-#]) | {{0}}.flatten(); torch.stack([{{0}}, {{1}}]); {{0}}.view(-1)", True),  # noqa: E501
            ("dtensor_flatten_of_strided_shard", f"dtensor: refused: RuntimeError: # {viewed}(Spec(f#[#, #](S(#))), [-#]) | {{0}}.flatten(); {{0}}.view(-1)", False),  # noqa: E501
            ("dtensor_flatten_of_strided_shard", f"dtensor: refused: RuntimeError: integer modulo by zero {viewed}(Spec(f#[#, #](_S(#, #))), [-#]) | {{0}}.flatten(); {{0}}.view(-1)", False),  # noqa: E501
            ("dtensor_number_after_scalar_tensor", "dtensor: silently wrong: value of v# differs, (Partial(sum),) | Partial(sum); {0} + 1", True),  # noqa: E501
            ("dtensor_number_after_scalar_tensor", "dtensor: silently wrong: value of v# differs, (Partial(sum),) | Partial(sum); {0} + {1}", False),  # noqa: E501
            ("dtensor_number_after_scalar_tensor", "dtensor: silently wrong: value of v# differs, (Partial(max),) | Partial(max); {0} + 1", False),  # noqa: E501
            ("dtensor_number_after_scalar_tensor", "dtensor: internal assertion: AttributeError: 'int' object has no attribute 'mesh' | Partial(avg), Replicate; torch.count_nonzero({0}); {0} + {1}", True),  # noqa: E501
            ("dtensor_infinity_norm_of_sharded_minimum", "dtensor: refused: RuntimeError: narrow unexpectedly changed concrete size on dim #: # -> # | Shard; {0}.flatten(0, 1); torch.linalg.vector_norm({0}, ord=float('inf')); backward", True),  # noqa: E501
            ("dtensor_infinity_norm_of_sharded_minimum", "dtensor: refused: RuntimeError: narrow unexpectedly changed concrete size on dim #: # -> # | Shard; {0}.flatten(0, 1); torch.linalg.vector_norm({0}, dim=0); backward", False),  # noqa: E501
            ("local_tensor_gathers_uneven_strided_shards", "dtensor: internal assertion: AssertionError: Non Tensor or int rank results must be equal for all ranks | uneven Shard; {0}.flatten()", True),  # noqa: E501
            ("local_tensor_gathers_uneven_strided_shards", "dtensor: internal assertion: AttributeError: 'LocalIntNode' object has no attribute 'int_' | uneven Shard; {0}.flatten()", True),  # noqa: E501
            ("local_tensor_gathers_uneven_strided_shards", "dtensor: internal assertion: AssertionError: Non Tensor or int rank results must be equal for all ranks | uneven Shard; {0}.sum()", False),  # noqa: E501
            ("dtensor_reshape_of_flattened", "dtensor: silently wrong: value of v# differs, (_StridedShard(dim=#, sf=#),) | Shard; {0}.flatten(); {0}.unflatten(0, (2, -1))", True),  # noqa: E501
            ("dtensor_reshape_of_flattened", "dtensor: silently wrong: value of v# differs, (_StridedShard(dim=#, sf=#),) | Shard; {0}.unflatten(0, (2, -1)); {0}.flatten()", False),  # noqa: E501
            ("dtensor_squeeze_of_nothing", "dtensor: silently wrong: shape of v#.full_tensor() differs: (#, #) for (#, #) | redistribute; {0}.squeeze(0)", True),  # noqa: E501
            ("dtensor_squeeze_of_nothing", "dtensor: silently wrong: shape of v# differs: (#, #) for (#, #) | {0}.squeeze_()", False),  # noqa: E501
            ("dtensor_squeeze_of_nothing", "dtensor: refused: RuntimeError: narrow unexpectedly changed concrete size on dim #: # -> # | Replicate, Shard; {0}.squeeze()", True),  # noqa: E501
            ("dtensor_squeeze_of_nothing", "dtensor: refused: RuntimeError: narrow unexpectedly changed concrete size on dim #: # -> # | Shard; {0}.unsqueeze(0)", False),  # noqa: E501
            ("compiled_view_of_shared_argument", f"views: {values} | a.mul_(2); t0 = b[0]; return t0 | y0, y0[1:] | dynamic=False", True),  # noqa: E501
            ("compiled_view_of_shared_argument", f"views: {values} | t0 = b[0]; return t0 | y0, y0[1:] | dynamic=False", False),  # noqa: E501
            ("compiled_view_of_shared_argument", f"views: {values} | a.mul_(2); t0 = b[0]; return t0 | y0, y1 | dynamic=False", False),  # noqa: E501
            ("compiled_view_of_shared_argument", "aot: refused: RuntimeError: shape '[#, #]' is invalid for input of size # | a[0] = 7; return b | y0[0], y0, 1 leaves", True),  # noqa: E501
            ("compiled_views_beside_shared_arguments", f"compile: {values} | a.mul_(2); t0 = a * b; t1 = t0.t(); return t0, t1 | y0, y0, 1 leaves", True),  # noqa: E501
            ("compiled_views_beside_shared_arguments", f"compile: {values} | t0 = a * b; t1 = t0.t(); return t0, t1 | y0, y0, 1 leaves", False),  # noqa: E501
            ("compiled_view_of_transposed_result", f"views: {values} | t0 = a * 3; t0.t_(); t1 = t0.unsqueeze(0); return t1, t0 | y0 |", True),  # noqa: E501
            ("compiled_view_of_transposed_result", f"views: {values} | a.t_(); t0 = a * 3; return t0 | y0 |", False),  # noqa: E501
            ("compiled_copy_of_expanded_to_itself", "views: refused: RuntimeError: more than one element of the written-to tensor refers to a single memory location | t0 = a.expand(2, *a.shape); t0.copy_(t0); return t0 | y0 | dynamic=True", True),  # noqa: E501
            ("compiled_copy_of_expanded_to_itself", "views: refused: RuntimeError: more than one element of the written-to tensor refers to a single memory location | t0 = a.expand(2, *a.shape); t1 = a.expand(2, *a.shape); with torch.no_grad(): t0.copy_(t1); t2 = t0.clone(); return t2 | y0 | dynamic=True", True),  # noqa: E501
            ("compiled_copy_of_expanded_to_itself", "views: refused: RuntimeError: more than one element of the written-to tensor refers to a single memory location | t0 = a.expand(2, *a.shape); t1 = t0.detach(); t1.copy_(t0); return t0 | y0 | dynamic=True", True),  # noqa: E501
            ("compiled_copy_of_expanded_to_itself", "views: refused: RuntimeError: more than one element of the written-to tensor refers to a single memory location | t0 = a.expand(2, *a.shape); t0.mul_(2); return t0 | y0 | dynamic=True", False),  # noqa: E501
            ("compiled_write_to_expanded_view", f"aot: {values} | t0 = a.expand(2, *a.shape); t0.zero_(); return a | y0 |", True),  # noqa: E501
            ("compiled_write_to_expanded_view", f"aot: {values} | t0 = a.expand(2, *a.shape); t0.mul_(2); return a | y0 |", False),  # noqa: E501
            ("compiled_write_to_double_scalar", f"compile: {written} | a.mul_(2); return a | y0, 0 leaves | y0: () float64 | torch.compile", True),  # noqa: E501
            ("compiled_write_to_double_scalar", f"compile: {written} | return a | y0, 0 leaves | y0: () float64 | torch.compile", False),  # noqa: E501
            ("compiled_write_to_double_scalar", f"compile: {written} | a.mul_(2); return a | y0, 0 leaves | y0: () float32 | torch.compile", False),  # noqa: E501
            ("compiled_two_writes_to_shared_arguments", "compile: internal assertion: AssertionError: ref_metadata | a.zero_(); b.mul_(2); return c | y0, y0.t(), y0", True),  # noqa: E501
            ("compiled_two_writes_to_shared_arguments", "compile: internal assertion: AssertionError: ref_metadata | a.zero_(); return b | y0, y1", False),  # noqa: E501
            ("compiled_returns_another_object", f"views: silently wrong: output #: {other} | b[0] = 7; return a | y0[1:], y0[0] | dynamic=False", True),  # noqa: E501
            ("compiled_returns_another_object", f"views: silently wrong: output #: {other} | b[0] = 7; return a | y0, y1 | dynamic=False", False),  # noqa: E501
            ("compiled_two_writes_to_shared_arguments", "views: internal assertion: AssertionError: ref_metadata | c.copy_(b); return a | y0[1:], y1.detach(), y1.detach() | dynamic=False", True),  # noqa: E501
            ("compiled_write_to_detached_alias", "compile: internal assertion: any_leaf=True != all_leaf=False | t0 = b.detach(); t0.mul_(3); return a | y0, y0", True),  # noqa: E501
            ("compiled_write_to_detached_alias", "compile: internal assertion: any_leaf=True != all_leaf=False | b.mul_(3); return a | y0, y0", False),  # noqa: E501
            ("dtensor_unflatten_twice_sharded", "dtensor: refused: RuntimeError: shape '[#, #]' is invalid for input of size # | {0}.unflatten(0, (2, -1))", True),  # noqa: E501
            ("dtensor_unflatten_twice_sharded", "dtensor: refused: RuntimeError: shape '[#, #]' is invalid for input of size # | {0}.expand(3, *{0}.shape)", False),  # noqa: E501
            ("dtensor_unflatten_twice_sharded", "dtensor: refused: RuntimeError: shape '[#, #]' is invalid for input of size # | {0}.reshape(2, -1)", True),  # noqa: E501
        ]  # fmt: skip
        entries = {entry.name: entry for entry in book.entries()}
        for name, signature, expected in table:
            with self.subTest(name=name, signature=signature):
                self.assertIs(entries[name].knows(signature), expected)


if __name__ == "__main__":
    unittest.main()
