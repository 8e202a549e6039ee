"""The ground of the export tests: modules made of functions, and an exported graph run by its signature."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch._functorch.aot_autograd import aot_export_module

from suites.aot.refusals import RefusalTestCase


class OfFunction(nn.Module):
    """A module without state whose forward is ``function(*inputs)``."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


class WithParameter(OfFunction):
    """A module with one parameter ``p``, ones(2), whose forward is ``function(p, *inputs)``."""

    def __init__(self, function):
        super().__init__(function)
        self.p = nn.Parameter(torch.ones(2))

    def forward(self, *inputs):
        return self.function(self.p, *inputs)


class ConvAndNorm(nn.Module):
    """A 1x1 convolution to three channels and a batch norm; ``finish`` makes the tuple of outputs."""

    def __init__(self, finish):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 1, 1)
        self.bn = nn.BatchNorm2d(3)
        self.finish = finish

    def forward(self, images):
        return self.finish(self.bn(self.conv(images)))


class ExportTestCase(RefusalTestCase):
    """Tests of ``aot_export_module``, whose graphs take the state of the module as inputs."""

    def export(self, module, *inputs, grad=True, joint=False, **options):
        """The graph of ``module`` on ``inputs`` and its signature; ``grad`` is the mode around the call."""
        with torch.set_grad_enabled(grad):
            return aot_export_module(module, inputs, trace_joint=joint, **options)

    def run_exported(self, exported, module, *inputs):
        """What the graph returns for the state of ``module`` and ``inputs``, by the names of its outputs."""
        gm, signature = exported
        state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        given = [state[name].detach().clone() for name in (*signature.parameters, *signature.buffers)]
        (returned,) = gm.graph.output_node().args
        return dict(zip((node.name for node in returned), gm(*given, *inputs), strict=True))

    def check_replay(self, exported, module, *inputs, seed=0):
        """Run the graph and a copy of ``module`` on ``inputs``; user outputs, buffers and inputs are equal.

        Both draw from generators with ``seed``. ``module`` and ``inputs`` stay as they are.
        """
        _, signature = exported
        eager, changed = copy.deepcopy(module), [each.clone() for each in inputs]
        torch.manual_seed(seed)
        expected = eager(*changed)
        torch.manual_seed(seed)
        found = self.run_exported(exported, module, *(each.clone() for each in inputs))
        self.assertEqual([found[name] for name in signature.user_outputs], list(expected), exact_stride=True)
        buffers = dict(module.named_buffers())
        buffers.update((name, found[out]) for out, name in signature.buffers_to_mutate.items())
        self.assertEqual(buffers, dict(eager.named_buffers()))
        after = dict(zip(signature.user_inputs, inputs, strict=True))
        after.update((name, found[out]) for out, name in signature.user_inputs_to_mutate.items())
        self.assertEqual(list(after.values()), changed)
