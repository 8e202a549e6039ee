"""The case that the suite's modules share: the verifier behind ``self.verify``, one front end a class.

A class runs through another front end as a subclass that says so::

    class AliasingThroughDynamoTest(AliasingTest):
        front_end = ThroughDynamo()
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, ClassVar
from unittest import mock

import torch
import torch._functorch.aot_autograd
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from harness import DynamoTestCase
from harness.conformance_features import Feature, of_class
from harness.graphs import (
    AotFunction,
    Capture,
    Compilation,
    FrontEnd,
    VerificationResult,
    compilers_of,
    verify_aot,
)
from harness.targets import Capability, require
from suites.target_device import default_to_target


def ramp(*shape: int, start: float = 1.0) -> torch.Tensor:
    """A float32 tensor whose elements all differ: ``start`` and up, by one."""
    return torch.arange(start, start + math.prod(shape), dtype=torch.float32).reshape(shape).clone()


def two_tensors(tensor: torch.Tensor) -> TwoTensor:
    """A wrapper subclass tensor of ``tensor`` and its double: no half can stand for the other."""
    return TwoTensor(tensor, tensor * 2)


class TwoTensors(TorchDispatchMode):
    """A region in which every tensor that is made, and not computed, is one of ``two_tensors``."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        given = tree_leaves((args, kwargs))
        made = isinstance(out, torch.Tensor) and not any(isinstance(value, torch.Tensor) for value in given)
        return two_tensors(out) if made else out


class AotTestCase(DynamoTestCase):
    """A test that compiles ahead of time; compiled graphs are counted from 0 in each."""

    front_end: ClassVar[FrontEnd] = AotFunction()

    def conformance_feature(self) -> Feature:
        """What a test tries of the compiler, by the class that it is written in, and the front end."""
        return of_class(self, "compiler features", front_end=self.front_end_name())

    def front_end_name(self) -> str:
        """The front end of this class's tests, before one of them runs."""
        return self.front_end.name

    def setUp(self) -> None:
        """Starts the compiler's count of graphs anew."""
        super().setUp()
        default_to_target(self)
        counter = mock.patch("torch._functorch.aot_autograd.AOT_COUNTER", new_callable=itertools.count)
        counter.start()
        self.addCleanup(counter.stop)

    def verify(self, function: Callable[..., Any], inputs: Any, **options: Any) -> VerificationResult:
        """``verify_aot`` through the class's front end; by inductor where the target declares it."""
        if options.get("backend") == "inductor":
            require(Capability.INDUCTOR)
        return verify_aot(function, inputs, **{"front_end": self.front_end, **options})

    def verify_both(self, function: Callable[..., Any], inputs: Any, **options: Any) -> VerificationResult:
        """``verify`` with inputs that require grad, then with ones that do not; the result is the first's.

        In a list all floating tensors require grad or none does. A callable is given the flag and makes
        ``(leaves, arguments)``.
        """
        result = self._verify_with(function, inputs, True, options)
        self._verify_with(function, inputs, False, options)
        return result

    def _verify_with(
        self, function: Any, inputs: Any, grad: bool, options: dict[str, Any]
    ) -> VerificationResult:
        if callable(inputs):
            return self.verify(function, lambda: inputs(grad), **options)
        tensors = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
        flags = [grad and (leaf.is_floating_point() or leaf.is_complex()) for leaf in tensors]
        return self.verify(function, inputs, requires_grad=flags, **options)

    def compile(self, function: Callable[..., Any], **options: Any) -> tuple[Callable[..., Any], Capture]:
        """``function`` by ``aot_function`` or ``aot_module``, and what captures its graphs when it is called.

        For what ``verify`` cannot say. ``options`` are ``Compilation``'s; input mutations stay in the graph.
        """
        capture = Capture()
        how = Compilation(capture.around(compilers_of("nop")), **{"keep_input_mutations": True, **options})
        return AotFunction().compile(function, how), capture

    def assertExpectedGraph(self, text: str, expect: str, skip: int = 0) -> None:
        """``assertExpectedInline`` where the class's front end leaves graphs as the function makes them."""
        if self.front_end.shows_graphs:
            self.assertExpectedInline(text, expect, skip + 1)
