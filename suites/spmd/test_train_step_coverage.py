"""Train steps over modules of many kinds: operators, layers and ways to use a parameter, beside DDP.

``CoverageTest`` has the names of ``torch.distributed._spmd``'s, for operators that a tracer which shards
tensors needs rules for. ``LayersTest`` has what decides whether a step can be lifted out of a module: state
in buffers, random numbers, parameters in lists, used twice or not at all.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import SGD, Adam

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.spmd.train_step_base import TrainStepTestCase, loss_step, sum_step, weighted_step


class OfLinear(nn.Module):
    """A layer, and what a function makes of its output, its input and itself."""

    def __init__(self, function):
        super().__init__()
        self.fc = nn.Linear(10, 10)
        self.function = function

    def forward(self, x):
        return self.function(self.fc(x), x, self.fc)


class Classifier(nn.Module):
    """The negative log likelihood of classes, given what a module makes of an input."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x, targets):
        return F.nll_loss(self.layers(x), targets)


class PositionEmbedding(nn.Module):
    """Words at positions, and the cross entropy of which word is which."""

    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(10, 8), nn.Embedding(20, 8)
        self.norm = nn.LayerNorm(8, elementwise_affine=False)
        self.fc = nn.Linear(8, 8)

    def forward(self, ids, targets):
        embedded = self.words(ids) + self.positions(torch.arange(20, device=ids.device))
        scores = F.softmax(self.fc(self.norm(embedded)), dim=-1)
        return F.cross_entropy(scores.view(-1, 8), targets.view(-1))


def foreach_sgd(module):
    return SGD(module.parameters(), lr=0.01, foreach=True)


class CoverageTest(TrainStepTestCase):
    """A layer and an operator; foreach SGD."""

    def check_module(self, module, draw=lambda: [torch.randn(2, 10)], **how):
        self.check_beside_ddp(module, draw, foreach_sgd, **how)

    def check_op(self, function):
        self.check_module(OfLinear(function))

    def test_log_softmax(self):
        # Weighted: else the gradients of all rows of the weight are alike.
        self.check_op(lambda y, x, fc: F.log_softmax(y, dim=1) * torch.arange(10.0, device=y.device))

    def test_nll_loss(self):
        self.check_module(
            Classifier(nn.Linear(10, 10), nn.LogSoftmax(dim=1)),
            lambda: [torch.randn(2, 10), torch.randint(0, 10, (2,))],
            function=loss_step,
        )

    def test_replicated_embedding(self):
        self.check_module(
            Classifier(
                nn.Embedding(10, 8),
                nn.LayerNorm(8, elementwise_affine=False),
                nn.Linear(8, 8),
                nn.Softmax(dim=1),
            ),
            lambda: [torch.randint(0, 10, (2,)), torch.randint(0, 8, (2,))],
        )

    def test_pos_embedding(self):
        self.check_module(
            PositionEmbedding(),
            lambda: [torch.randint(0, 10, (2, 20)), torch.randint(0, 8, (2, 20))],
            function=loss_step,
        )

    def test_factory_full(self):
        self.check_op(lambda y, x, fc: y + torch.full(x.shape, 7, device=x.device))

    def test_factory_arange(self):
        def function(y, x, fc):
            one = torch.arange(x.numel(), device=x.device)
            other = torch.arange(0, x.numel(), device=x.device)
            return y + one.view(x.shape) + other.view(x.shape)

        self.check_op(function)

    def test_sym_numel(self):
        self.check_op(lambda y, x, fc: y + fc.weight.numel())

    def test_sym_stride(self):
        self.check_op(lambda y, x, fc: y + fc.weight.stride(0))

    def test_scalar(self):
        self.check_op(
            lambda y, x, fc: y + torch.ops.aten.scalar_tensor.default(7, dtype=x.dtype, device=x.device)
        )

    def test_stack(self):
        self.check_op(lambda y, x, fc: torch.stack([x, y], dim=1))

    def test_arithmetic_ops_on_symint(self):
        self.check_op(lambda y, x, fc: y + x.shape[0] * x.numel() - x.shape[0] // 2)

    def test_slice(self):
        self.check_op(lambda y, x, fc: y[:, :1])

    def test_bulk_cat(self):
        self.check_op(lambda y, x, fc: torch.cat([fc(x) for _ in range(30)], dim=1))


class LayersTest(TrainStepTestCase):
    """Layers with state, with randomness, with parameters in unusual places; foreach Adam."""

    def check(self, module, *shape, draw=None, eps=1e-8, **how):
        return self.check_beside_ddp(
            module,
            draw or (lambda: [torch.randn(*shape)]),
            lambda module: Adam(module.parameters(), lr=0.01, eps=eps, foreach=True),
            **how,
        )

    def test_batch_norm(self):
        # No bias before the mean is taken away: it has no gradient but rounding noise, which Adam enlarges.
        module = nn.Sequential(nn.Linear(10, 10, bias=False), nn.BatchNorm1d(10), nn.Tanh())
        compiled = self.check(module, 4, 10, function=weighted_step)
        self.assertEqual(compiled.mod[1].num_batches_tracked, 4)

    def test_batch_norm_in_evaluation(self):
        self.check(nn.Sequential(nn.Linear(10, 10), nn.BatchNorm1d(10), nn.Tanh()).eval(), 4, 10)

    def test_dropout(self):
        self.check(nn.Sequential(nn.Linear(10, 10), nn.Dropout(0.5), nn.Linear(10, 10)), 4, 10)

    @torch.backends.cudnn.flags(enabled=False)  # it moves weights into one storage, which no graph can hold
    def test_recurrent(self):
        class Recurrent(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.LSTM(10, 6, num_layers=2)

            def forward(self, x):
                return self.cell(x)[0]

        self.check(Recurrent(), 3, 2, 10)

    def test_attention(self):
        # The biases of keys have no gradient but rounding noise, which eps keeps Adam from enlarging.
        module = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
        self.check(module, 2, 5, 8, function=weighted_step, eps=1e-3)

    def test_convolution_in_channels_last(self):
        module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3))
        self.check(
            module.to(memory_format=torch.channels_last),
            draw=lambda: [torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)],
        )

    def test_double_precision(self):
        compiled = self.check(nn.Linear(10, 10).double(), draw=lambda: [torch.randn(2, 10).double()])
        self.assertEqual(compiled.flat_state[0].dtype, torch.float64)

    def test_casts_of_autocast(self):
        def step(module, optimizer, x):
            with torch.autocast(x.device.type, dtype=torch.bfloat16):
                loss = module(x).sum()
            loss.backward()
            optimizer.step()
            return loss

        compiled = self.check(
            nn.Sequential(nn.Linear(10, 10), nn.LayerNorm(10), nn.Linear(10, 3)), 2, 10, function=step
        )
        dtypes = {node.meta["val"].dtype for node in compiled.gm.graph.nodes if "addmm" in node.name}
        self.assertEqual(dtypes, {torch.bfloat16})

    def test_buffer_that_is_assigned(self):
        class Centred(nn.Module):
            """Takes the running mean of its inputs from them, before a layer."""

            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(10, 10)
                self.register_buffer("mean", torch.zeros(10))
                self.register_buffer("before", torch.zeros(10))

            def forward(self, x):
                self.before, self.mean = self.mean, 0.5 * self.mean + 0.5 * x.mean(dim=0)
                return self.fc(x - self.mean) * self.before

        self.check(Centred(), 4, 10)

    def test_parameter_used_twice(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding, self.head = nn.Embedding(7, 5), nn.Linear(5, 7, bias=False)
                self.head.weight = self.embedding.weight

            def forward(self, ids):
                return F.log_softmax(self.head(self.embedding(ids)), dim=-1)[:, 0]

        tied = Tied().to(self.device)
        tied.head.weight = tied.embedding.weight  # moving makes two of it on devices of PrivateUse1
        compiled = self.check(tied, draw=lambda: [torch.randint(0, 7, (6,))], all_reduces=1)
        state = compiled.flat_state
        self.assertIs(state[0], state[1])

    def test_parameter_without_gradient(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.used, self.frozen, self.unused = nn.Linear(10, 10), nn.Linear(10, 10), nn.Linear(3, 3)
                self.frozen.requires_grad_(False)

            def forward(self, x):
                return self.used(self.frozen(x))

        self.check(Model(), 2, 10, all_reduces=2, ddp_options={"find_unused_parameters": True})

    def test_gradients_by_grad_function(self):
        def step(module, optimizer, x):
            parameters = list(module.parameters())
            loss = module(x).sum()
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter.grad = gradient
            optimizer.step()
            return loss

        self.check(nn.Linear(10, 10), 2, 10, function=step, ddp_function=sum_step)

    def test_clipped_gradients(self):
        def step(module, optimizer, x):
            loss = module(x).square().sum()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(module.parameters(), 0.5)
            optimizer.step()
            return loss, norm

        self.check(nn.Sequential(nn.Linear(10, 10), nn.Tanh(), nn.Linear(10, 10)), 2, 10, function=step)

    def test_two_backwards(self):
        def step(module, optimizer, x):
            losses = [module(part).square().sum() for part in x.chunk(2)]
            for loss in losses:
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return losses

        def at_once(module, optimizer, x):
            # DDP that adds up would add up what the first backward has added up already.
            losses = [part.square().sum() for part in module(x).chunk(2)]
            sum(losses).backward()
            optimizer.step()
            optimizer.zero_grad()
            return losses

        self.check(nn.Linear(10, 10), 4, 10, function=step, ddp_function=at_once, all_reduces=4)


if __name__ == "__main__":
    run_tests()
