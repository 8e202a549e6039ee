"""``torch.compile`` on tensors that are made of tensors that are made of tensors."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch._dynamo.backends.common import aot_autograd
from torch.testing._internal.custom_tensor import ConstantExtraMetadataTensor
from torch.testing._internal.two_tensor import TwoTensor

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import Capture, compilers_of
from suites.aot.base import ramp, two_tensors
from suites.aot.refusals import plain_guess
from suites.aot.subclass_base import SubclassTestCase, kind

#: The kind of a TwoTensor of plain tensors, and of a TwoTensor of those.
ONE_LEVEL = (TwoTensor, None, [torch.Tensor, torch.Tensor])
TWO_LEVELS = (TwoTensor, None, [ONE_LEVEL, ONE_LEVEL])


def nested(start=1.0):
    """A leaf of four different rows of four, two levels deep."""
    return two_tensors(two_tensors(ramp(4, start=start))).requires_grad_()


def labelled(inner=6, outer=4):
    """A leaf two levels deep whose types know a number each."""
    elem = ConstantExtraMetadataTensor(ramp(4))
    elem.constant_attribute = inner
    tensor = ConstantExtraMetadataTensor(elem)
    tensor.constant_attribute = outer
    return tensor.requires_grad_()


def wave(x):
    return x.sin().cos()


class NestedSubclassTest(SubclassTestCase):
    """Nested wrapper subclasses as inputs."""

    def compiled(self, f, **options):
        """``f`` as by ``torch.compile(backend="aot_eager")``, in one piece, and what captures its graphs."""
        capture = Capture()
        compilers = capture.around(compilers_of("aot_eager"))
        backend = aot_autograd(
            fw_compiler=compilers.forward,
            bw_compiler=compilers.backward,
            inference_compiler=compilers.inference,
            partition_fn=compilers.partitioner,
        )
        return torch.compile(f, backend=backend, fullgraph=True, **options), capture

    def check(self, f, *makers):
        """Compare with eager on inputs of ``makers``; gives the output, the gradients and the graphs."""
        compiled, capture = self.compiled(f)
        inputs, others = [make() for make in makers], [make() for make in makers]
        found, expected = compiled(*inputs), f(*others)
        self.same_tensors([found], [expected])
        (found * found).sum().backward()
        (expected * expected).sum().backward()
        used = [place for place, other in enumerate(others) if other.grad is not None]
        self.assertEqual([place for place, each in enumerate(inputs) if each.grad is not None], used)
        gradients = [inputs[place].grad for place in used]
        self.same_tensors(gradients, [others[place].grad for place in used])
        self.assertEqual([graph.role for graph in capture.graphs], ["joint", "forward", "backward"])
        return found, gradients, capture.graphs[1:]

    def test_nested_subclasses(self):
        found, gradients, graphs = self.check(wave, nested)
        self.assertEqual([kind(each) for each in (found, *gradients)], [TWO_LEVELS] * 2)
        # Each of the four plain tensors is an input of its own.
        self.assertExpectedGraph(
            graphs[0].text,
            """\
forward(primals_1, primals_2, primals_3, primals_4)
  sin = aten.sin.default(primals_1)
  sin_1 = aten.sin.default(primals_2)
  sin_2 = aten.sin.default(primals_3)
  sin_3 = aten.sin.default(primals_4)
  cos = aten.cos.default(sin)
  cos_1 = aten.cos.default(sin_1)
  cos_2 = aten.cos.default(sin_2)
  cos_3 = aten.cos.default(sin_3)
  return (cos, cos_1, cos_2, cos_3, primals_1, primals_2, primals_3, primals_4)""",
        )

        def differently_inside():
            half = two_tensors(ramp(4).requires_grad_())
            return TwoTensor(half, half.clone().detach().requires_grad_())

        # A leaf on the outside only: its plain parts do not require grad, the first half's do.
        compiled, _ = self.compiled(wave)
        with self.assertRaisesRegex(Exception, "Expected a and b to have same device, layout, requires_grad"):
            compiled(differently_inside())

    def test_nested_subclasses_non_nested_grad(self):
        compiled, _ = self.compiled(wave)
        x = two_tensors(ramp(4)).requires_grad_()
        result = compiled(x)
        self.assertEqual(kind(result), ONE_LEVEL)
        self.same_tensors([result], [wave(x)])
        # The gradient has a level more than the output.
        with self.refused(RuntimeError, *plain_guess(TwoTensor, "torch.Size([4])")):
            (result + nested()).sum().backward()

    def test_custom_tensor_metadata(self):
        def f(x):
            return x * x.elem * x.elem.elem * x.constant_attribute

        found, (gradient,), _ = self.check(f, labelled)
        for tensor in (found, gradient, found.elem, gradient.elem):
            self.assertIs(type(tensor), ConstantExtraMetadataTensor)
        self.assertEqual(found.elem.elem, 4 * ramp(4) ** 3)
        # The number is part of what was compiled. Another one is compiled anew, now as a symbol: it is saved
        # for backward, which for that is compiled at once.
        compiled, capture = self.compiled(f)
        for number in (4, 4, 5):
            self.assertEqual(compiled(labelled(outer=number)).elem.elem, number * ramp(4) ** 3)
        self.assertEqual(
            [graph.role for graph in capture.graphs], ["joint", "forward", "joint", "forward", "backward"]
        )

    def test_sizes_as_symbols(self):
        """One graph for tensors of all sizes; what it needs of a size comes from the subclass tensor."""

        def rows(x):
            return x.reshape(-1) * x.shape[0]

        for needs_grad in (True, False):
            compiled, capture = self.compiled(rows, dynamic=True)
            for size in (3, 4, 6):
                x, other = (two_tensors(ramp(size, 2)).requires_grad_(needs_grad) for _ in range(2))
                found, expected = compiled(x), rows(other)
                self.same_tensors([found], [expected])
                if needs_grad:
                    (found * found).sum().backward()
                    (expected * expected).sum().backward()
                    self.same_tensors([x.grad], [other.grad])
            roles = ["joint", "forward", "backward"] if needs_grad else ["inference"]
            self.assertEqual([graph.role for graph in capture.graphs], roles)

    def test_nested_subclasses_complicated_inps(self):
        def f(x, y, z):
            return (x + y).sum() + (x.a + y.b).sum() + wave(x)

        found, gradients, graphs = self.check(
            f, nested, lambda: nested(start=5.0), lambda: ramp(4).requires_grad_()
        )
        # The third input is not used and has no gradient; `x.a` and `y.b` are inputs beside `x` and `y`.
        self.assertEqual([kind(each) for each in (found, *gradients)], [TWO_LEVELS] * 3)
        self.assertEqual([len(graph.placeholders) for graph in graphs], [12, 8])

    def test_nested_subclasses_complicated_inps_mixed(self):
        def f(x, y):
            return y * y.elem * y.elem.elem * y.constant_attribute + x

        found, gradients, _ = self.check(f, nested, labelled)
        # What comes out is the one subclass around the other, gradients too.
        self.assertEqual([kind(each) for each in gradients], [kind(found)] * 2)
        self.assertEqual([type(found), kind(found.elem.elem)], [ConstantExtraMetadataTensor, TWO_LEVELS])


if __name__ == "__main__":
    run_tests()
