"""``run_subtests``: runs a test function on every combination of its arguments, on the same ranks."""

from __future__ import annotations

import itertools
import unittest
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.compiler_state import reset_compiler

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


def run_subtests(
    case: unittest.TestCase,
    subtest_config: Mapping[str, Sequence[Any]],
    test_fn: Callable[..., object],
    *test_args: Any,
    **test_kwargs: Any,
) -> None:
    """Calls ``test_fn`` once for each combination of the values in ``subtest_config``, each in a sub-test.

    The last keyword varies fastest. The compiler is reset before and after each, and a barrier follows each,
    so that a rank whose sub-test failed does not run ahead. Source of the contract:
    ``common_distributed.run_subtests``.
    """
    for values in itertools.product(*subtest_config.values()):
        chosen = dict(zip(subtest_config, values, strict=True))
        with case.subTest(**chosen):
            reset_compiler()
            test_fn(*test_args, **test_kwargs, **chosen)
            reset_compiler()
        _meet()


def _meet() -> None:
    import torch.distributed as dist

    if dist.is_initialized():
        dist.barrier()
