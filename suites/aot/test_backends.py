"""The same functions through every backend of the verifier: none may lose an alias, a write, a gradient."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch

from harness import (  # noqa: F401  (unittest calls load_tests)
    instantiate_parametrized_tests,
    load_tests,
    parametrize,
    run_tests,
    slow_test,
    subtest,
)
from suites.aot.base import AotTestCase, ramp


def writes_and_views(a, b):
    """Writes to an input, returns a view of it, something new, and views of that."""
    a.mul_(2)
    product = a * b
    return a.view(-1), product, product.t(), product[0]


def transposes(a, b):
    """Gives an input other strides, and returns it in a dictionary."""
    a.t_()
    a[0].add_(1)
    return {"sum": a + b, "view": b.unsqueeze(0)}


def some_without_grad(a, b):
    """Outputs inside and outside of autograd."""
    with torch.no_grad():
        mean = a.mean(0)
    return a.detach(), (a * b).relu(), mean, 3


def normalised(a, b):
    """What saves several things for its backward, one of them a random mask."""
    return torch.nn.functional.layer_norm(a, a.shape[1:]).softmax(1) @ b


FUNCTIONS = [
    subtest(function, name=function.__name__)
    for function in (writes_and_views, transposes, some_without_grad, normalised)
]


def shared_arguments():
    base = ramp(3, 3).requires_grad_()
    x = base * 1
    return [base], [x.view(3, 3), x.t()]


@instantiate_parametrized_tests
class BackendsTest(AotTestCase):
    """Each function on each backend, with and without grad."""

    def check(self, function, *, dynamic, **options):
        def inputs(size):
            return [ramp(size, size), ramp(size, size, start=10) / 8]

        more = [inputs(5)] if dynamic else [[ramp(3, 3, start=2), ramp(3, 3) / 8]]
        self.verify_both(
            function, inputs(3), more_inputs=more, dynamic=dynamic, test_mutation=True, **options
        )

    @parametrize("backend", ["nop", "aot_eager"])
    @parametrize("dynamic", [False, True])
    @parametrize("function", FUNCTIONS)
    def test_backend(self, backend, dynamic, function):
        self.check(function, backend=backend, dynamic=dynamic)

    @parametrize("backend", ["nop", "aot_eager"])
    def test_shared_arguments(self, backend):
        self.verify(lambda a, b: (a.mul_(2), b + 1)[1], shared_arguments, test_mutation=True, backend=backend)

    def test_inductor(self):
        self.verify(
            writes_and_views,
            [ramp(3, 3), ramp(3, 3, start=10)],
            requires_grad=True,
            test_mutation=True,
            keep_input_mutations=True,
            backend="inductor",
        )

    @slow_test
    @parametrize("dynamic", [False, True])
    @parametrize("function", FUNCTIONS)
    def test_inductor_everywhere(self, dynamic, function):
        self.check(function, backend="inductor", dynamic=dynamic)

    @slow_test
    def test_inductor_shared_arguments(self):
        self.verify(
            lambda a, b: (a.mul_(2), b + 1)[1], shared_arguments, test_mutation=True, backend="inductor"
        )


if __name__ == "__main__":
    run_tests()
