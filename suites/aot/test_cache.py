"""AOTAutograd's cache: what was compiled for a graph serves the same graph again, and no other.

``TestAOTAutogradWithCache`` has the suite's tests of functions again, each function twice: the second time
from the cache, in strict mode, with hits, misses, bypasses and what was saved counted.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch._dynamo
from torch._dynamo.exc import BackendCompilerFailed
from torch._functorch import config
from torch._functorch._aot_autograd.autograd_cache import (
    AOTAutogradCache,
    BypassAOTAutogradCache,
    FXGraphCacheMiss,
)
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import torch_at_least
from suites.aot import rerun_tests
from suites.aot.autograd_cache import Codes, counted, new_cache
from suites.aot.base import AotTestCase
from suites.aot.front_ends import ThroughCache
from suites.aot.known import Known
from suites.aot.rerun import rerun

#: Tests that fail behind the cache alone.
KNOWN = (
    Known(
        "test_backward_mutation_data test_backward_mutation_on_grad_out test_custom_autograd"
        " test_input_output_aliase_custom_autograd_function",
        "BypassAOTAutogradCache",
        "Unsupported call_function target autograd_function_apply",
        "a graph with an autograd.Function is not cached, since its code is no part of the key",
    ),
)
if not torch_at_least("2.12"):
    KNOWN += (
        Known(
            "test_input_mutation_false_aliasing",
            "RuntimeError",
            "^Attempted to access the data pointer on an invalid python storage",
            "a key is made of subclass inputs by reading their storages, and these have none",
        ),
    )

TestAOTAutogradWithCache = rerun(
    "TestAOTAutogradWithCache",
    __name__,
    rerun_tests.BASES,
    ThroughCache,
    stay=rerun_tests.STAY,
    breaks=rerun_tests.BREAKS,
    known=(*rerun_tests.KNOWN, *KNOWN),
)


class Doubles(torch.autograd.Function):
    """x * 2, in Python both ways: a graph with it is not cached."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def trained(function, inputs):
    """The result of a call on copies of ``inputs``, and the gradients of those that take one."""
    leaves = [tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in inputs]
    result = function(*leaves)
    if result.requires_grad:
        (result * result.detach()).sum().backward()
    return result.detach(), [leaf.grad for leaf in leaves]


def ramp(*shape, **options):
    """1, 2, 3, ... of a shape."""
    return (torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape)).to(**options)


def product(a, b):
    return a.sin() * b


TRAINED = ("forward", "backward")


class AutogradCacheTest(AotTestCase):
    """What is found again, and what is not."""

    def setUp(self):
        super().setUp()
        self.codes = Codes()
        self.compiled = []

    def compile(self, function, *, dynamic=False, plain=False):
        """``function`` as ``torch.compile`` makes it when it sees it first; it is noted what is compiled."""
        torch._dynamo.reset()

        def compiler(role):
            def compiling(graph, inputs):
                self.compiled.append(role)
                return make_boxed_func(graph)

            return compiling

        roles = {"fw_compiler": "forward", "bw_compiler": "backward", "inference_compiler": "inference"}
        arguments = {name: compiler(role) for name, role in roles.items()}
        if not plain:
            arguments = self.codes.keeping(arguments)

        def backend(graph, inputs):
            return aot_module_simplified(graph, inputs, **arguments)

        return torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True)

    @contextmanager
    def cache_does(self, compiled=(), **counts):
        """A region in which the cache counts exactly this, and these roles are compiled."""
        self.compiled.clear()
        with counted() as told:
            yield
        wanted = {f"autograd_cache_{what}": count for what, count in counts.items()}
        self.assertEqual((dict(told), self.compiled), (wanted, list(compiled)))

    def step(self, function, *inputs, **options):
        """A call and its backward as in eager, by what a new ``torch.compile`` makes of the function."""
        expected = trained(function, inputs)
        self.assertEqual(trained(self.compile(function, **options), inputs), expected)

    @contextmanager
    def fails(self, kind):
        """A region in which the compiler raises ``kind``."""
        with self.assertRaises(BackendCompilerFailed) as caught:
            yield
        self.assertIs(type(caught.exception.inner_exception), kind)

    def test_found_again(self):
        inputs = ramp(2, 3).requires_grad_(), ramp(3).requires_grad_()
        with new_cache(self.codes):
            with self.cache_does(TRAINED, miss=1, saved=1):
                self.step(product, *inputs)
            with self.cache_does(hit=1):
                self.step(product, *inputs)
            # Other values are the same graph.
            with self.cache_does(hit=1):
                self.step(product, *(tensor.detach().neg().requires_grad_() for tensor in inputs))

    def test_inference_found_again(self):
        with new_cache(self.codes):
            with self.cache_does(["inference"], miss=1, saved=1):
                self.step(product, ramp(2, 3), ramp(3))
            with self.cache_does(hit=1):
                self.step(product, ramp(2, 3), ramp(3))

    def test_another_graph_is_not_found(self):
        def scaled(factor):
            return lambda a, b: product(a, b) * factor

        inputs = ramp(2, 3).requires_grad_(), ramp(3).requires_grad_()
        with new_cache(self.codes):
            for function in (product, scaled(2), scaled(3)):
                with self.cache_does(TRAINED, miss=1, saved=1):
                    self.step(function, *inputs)
            for function in (scaled(3), product):
                with self.cache_does(hit=1):
                    self.step(function, *inputs)

    def test_other_inputs_are_not_found(self):
        a, b = ramp(2, 3), ramp(3)
        others = {
            "dtype": (a.double().requires_grad_(), b),
            "shape": (ramp(4, 3).requires_grad_(), b),
            "strides": (ramp(3, 2).t().requires_grad_(), b),
            "which require grad": (a, ramp(3).requires_grad_()),
        }
        with new_cache(self.codes):
            self.step(product, ramp(2, 3).requires_grad_(), b)
            for what, inputs in others.items():
                with self.subTest(what), self.cache_does(TRAINED, miss=1, saved=1):
                    self.step(product, *inputs)

    def test_under_other_settings_it_is_not_found(self):
        inputs = ramp(2, 3).requires_grad_(), ramp(3)
        with new_cache(self.codes):
            self.step(product, *inputs)
            for settings in ({"activation_memory_budget": 0.5}, {"recompute_views": True}):
                with config.patch(settings), self.cache_does(TRAINED, miss=1, saved=1):
                    self.step(product, *inputs)
            with torch.no_grad(), self.cache_does(["inference"], miss=1, saved=1):
                self.step(product, *inputs)
            with self.cache_does(hit=1):
                self.step(product, *inputs)

    def test_a_plain_compiler_is_not_cached(self):
        inputs = ramp(2, 3).requires_grad_(), ramp(3)
        with new_cache(self.codes):
            for _ in range(2):
                with self.cache_does(TRAINED):
                    self.step(product, *inputs, plain=True)

    def test_without_a_backward_nothing_is_saved(self):
        with new_cache(self.codes):
            for _ in range(2):
                with self.cache_does(["forward"], miss=1):
                    self.compile(product)(ramp(2, 3).requires_grad_(), ramp(3))

    def test_bypass(self):
        with new_cache(self.codes, strict=False):
            for _ in range(2):
                with self.cache_does(TRAINED, bypass=1):
                    self.step(Doubles.apply, ramp(3).requires_grad_())

    def test_bypass_in_strict_mode(self):
        with new_cache(self.codes), self.cache_does(bypass=1), self.fails(BypassAOTAutogradCache):
            self.step(Doubles.apply, ramp(3).requires_grad_())

    def test_custom_function_where_allowed(self):
        allowed = {"autograd_cache_allow_custom_autograd_functions": True}
        with new_cache(self.codes), config.patch(allowed):
            with self.cache_does(TRAINED, miss=1, saved=1):
                self.step(Doubles.apply, ramp(3).requires_grad_())
            with self.cache_does(hit=1):
                self.step(Doubles.apply, ramp(3).requires_grad_())

    def test_lost_code_is_compiled_again(self):
        inputs = ramp(2, 3).requires_grad_(), ramp(3)
        with new_cache(self.codes, strict=False):
            self.step(product, *inputs)
            self.codes.clear()
            with self.cache_does(TRAINED, miss=1, saved=1):
                self.step(product, *inputs)
            with self.cache_does(hit=1):
                self.step(product, *inputs)

    def test_lost_code_in_strict_mode(self):
        inputs = ramp(2, 3).requires_grad_(), ramp(3)
        with new_cache(self.codes):
            self.step(product, *inputs)
            self.codes.clear()
            with self.cache_does(miss=1), self.fails(FXGraphCacheMiss):
                self.step(product, *inputs)

    def test_clear(self):
        inputs = ramp(2, 3).requires_grad_(), ramp(3)
        with new_cache(self.codes):
            self.step(product, *inputs)
            AOTAutogradCache.clear()
            with self.cache_does(TRAINED, miss=1, saved=1):
                self.step(product, *inputs)

    def test_damaged_entry(self):
        inputs = ramp(2, 3).requires_grad_(), ramp(3)
        with new_cache(self.codes, strict=False):
            self.step(product, *inputs)
            directory = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"], "aotautograd")
            (entry,) = (file for file in directory.rglob("*") if file.is_file())
            entry.write_bytes(entry.read_bytes()[:100])
            logged = self.assertLogs("torch._inductor.codecache", "WARNING")
            with logged as told, self.cache_does(TRAINED, miss=1, saved=1):
                self.step(product, *inputs)
            self.assertIn("unable to load compiled graph", told.output[0])

    def test_dynamic(self):
        def step(size):
            self.step(torch.cdist, ramp(size, 3).requires_grad_(), ramp(2, 3), dynamic=True)

        with new_cache(self.codes):
            with self.cache_does(TRAINED, miss=1, saved=1):
                step(5)
            with self.cache_does(hit=1):
                step(6)
            # More than 25 points are another algorithm: the same call to the cache, other guards.
            with self.cache_does(TRAINED, miss=1, guard_miss=1, saved=1):
                step(40)
            for size in (41, 5):
                with self.cache_does(hit=1):
                    step(size)


if __name__ == "__main__":
    run_tests()
