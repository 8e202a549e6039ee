"""Communication hooks of DDP: what a hook is given, what becomes of its result, what is refused.

``ModuleForDdpCommHook`` has the gradient 0.25 in each entry, whatever goes in. Where a test is about the
reduction, each rank scales its loss by its rank plus one, so that no rank has the average by itself.
"""

# No postponed annotations here: DDP looks at those of a hook, and takes them as they stand.

import copy
import sys
from functools import wraps
from itertools import product
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks, powerSGD_hook
from torch.nn.functional import mse_loss

from harness import (  # noqa: F401  (unittest calls load_tests)
    TestCase,
    load_tests,
    requires_nccl,
    run_tests,
    skip_if_lt_x_gpu,
)
from harness.targets import Capability, needs
from suites.c10d.ddp_base import DdpTestCase
from suites.c10d.ddp_models import ModuleForDdpCommHook

#: What is put in; nothing depends on it.
INPUT = 8
#: The gradient of the mean over a 2x2 parameter, and the average of it times 1 and times 2.
EACH, SCALED = 0.25, 0.375
#: What PowerSGD's products of 20x20 matrices may lose in float32, on gradients around 0.1.
FACTORED = {"rtol": 1e-4, "atol": 1e-5}

BUILTIN = (dist.BuiltinCommHookType.ALLREDUCE, dist.BuiltinCommHookType.FP16_COMPRESS)


def simple_hook(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Give ones for any bucket, and add ones in a callback: every gradient becomes 2."""
    future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    future.set_result(torch.ones_like(bucket.buffer()))
    return future.then(lambda done: done.value() + torch.ones_like(bucket.buffer()))


def sum_hook(group: dist.ProcessGroup, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Add up the ranks' gradients, without averaging."""
    work = dist.all_reduce(bucket.buffer(), group=group, async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def bf16_hook(group: dist.ProcessGroup, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Call torch's hook under a name for which DDP does not ask for NCCL."""
    return default_hooks.bf16_compress_hook(group, bucket)


class PowerSGDStateTest(TestCase):
    """What PowerSGD's state refuses; needs no group."""

    def test_invalid_powerSGD_state(self):
        message = (
            r"^Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, "
            r"because PowerSGD can only be applied after the first two iterations in DDP\."
        )

        def state(start, feedback, warm):
            return powerSGD_hook.PowerSGDState(
                process_group=None,
                matrix_approximation_rank=1,
                start_powerSGD_iter=start,
                use_error_feedback=feedback,
                warm_start=warm,
            )

        for start, feedback, warm in product((0, 1), (False, True), (False, True)):
            with self.subTest(start=start, feedback=feedback, warm=warm):
                if feedback or warm:
                    with self.assertRaisesRegex(ValueError, message):
                        state(start, feedback, warm)
                else:
                    self.assertEqual(state(start, feedback, warm).start_powerSGD_iter, start)
        self.assertEqual(state(2, True, True).start_powerSGD_iter, 2)


class CommHookTestCase(DdpTestCase):
    """Has a model whose gradients are known beforehand, and looks at them."""

    def check_gradients(self, ddp, expected, *, scale=1):
        """Run backward of ``scale`` times the mean, and check each entry of each gradient."""
        ddp.zero_grad()
        (ddp(torch.full((2, 2), INPUT, device=self.device), self.rank).mean() * scale).backward()
        for parameter in ddp.parameters():
            self.assertEqual(parameter.grad, torch.full_like(parameter, expected))

    def wrapped(self, **options):
        return self.wrap(ModuleForDdpCommHook().to(self.device), **options)

    def check_builtin(self, *, view):
        for kind in BUILTIN:
            with self.subTest(kind=str(kind)):
                ddp = self.wrapped(gradient_as_bucket_view=view)
                ddp._register_builtin_comm_hook(kind)
                self.check_gradients(ddp, EACH)
                self.check_gradients(ddp, SCALED, scale=self.rank + 1)


class DdpCommHookTest(CommHookTestCase):
    """Hooks instead of DDP's own averaging."""

    def test_ddp_comm_hook_future_passing_cpu(self):
        ddp = self.wrapped()
        ddp.register_comm_hook(None, simple_hook)
        self.check_gradients(ddp, 2.0)

    def test_without_comm_hook(self):
        ddp = self.wrapped()
        self.check_gradients(ddp, EACH)
        self.check_gradients(ddp, SCALED, scale=self.rank + 1)

    def test_ddp_comm_hook_sum(self):
        # The hook alone decides: nothing divides its result by the number of ranks.
        ddp = self.wrapped()
        ddp.register_comm_hook(dist.group.WORLD, sum_hook)
        self.check_gradients(ddp, 2 * EACH)
        self.check_gradients(ddp, 2 * SCALED, scale=self.rank + 1)

    @needs(Capability.BUILTIN_COMM_HOOKS)
    def test_builtin_ddp_comm_hooks_cpu(self):
        self.check_builtin(view=False)

    @needs(Capability.BUILTIN_COMM_HOOKS)
    def test_builtin_ddp_comm_hooks_cpu_grad_is_view(self):
        self.check_builtin(view=True)

    def test_python_ddp_comm_hooks_cpu(self):
        hooks = (
            default_hooks.allreduce_hook,
            default_hooks.fp16_compress_hook,
            bf16_hook,
            default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook),
        )
        for hook, view in product(hooks, (False, True)):
            with self.subTest(hook=hook.__qualname__, view=view):
                calls = []

                @wraps(hook)
                def noted(group, bucket, hook=hook, calls=calls):
                    calls.append(bucket.index())
                    return hook(group, bucket)

                ddp = self.wrapped(gradient_as_bucket_view=view)
                ddp.register_comm_hook(dist.group.WORLD, noted)
                self.check_gradients(ddp, EACH)
                self.check_gradients(ddp, SCALED, scale=self.rank + 1)
                self.assertEqual(calls, [0, 0])

    def test_compression_rounds(self):
        # A third of the way from one 16-bit number to the next: compressed it is lost, and else it is not.
        # On average over ranks that are apart by half of all, so nobody has it without the others.
        for hook, step in ((default_hooks.fp16_compress_hook, 2.0**-10), (bf16_hook, 2.0**-7)):
            with self.subTest(hook=hook.__qualname__):
                scale = (self.rank + 1) * (1 + step / 3) / EACH
                self.check_gradients(self.wrapped(), 1.5 * (1 + step / 3), scale=scale)
                ddp = self.wrapped()
                ddp.register_comm_hook(dist.group.WORLD, hook)
                self.check_gradients(ddp, 1.5, scale=scale)

    def test_noop_hook(self):
        # Nothing is exchanged, where DDP by itself would have averaged.
        ddp = self.wrapped()
        self.check_gradients(ddp, SCALED, scale=self.rank + 1)
        ddp.register_comm_hook(None, debugging_hooks.noop_hook)
        self.check_gradients(ddp, EACH * (self.rank + 1), scale=self.rank + 1)

    def test_hook_sees_buckets(self):
        # All is in one bucket until it is known in which order gradients come; then a layer is in each.
        model = nn.Sequential(*(nn.Linear(20, 20, bias=False) for _ in range(3))).to(self.device)
        seen = []

        def hook(state: list[str], bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
            self.assertIs(state, seen)
            names = {id(parameter): name for name, parameter in ddp.module.named_parameters()}
            parts = [part.flatten() for part in bucket.gradients()]
            self.assertEqual(torch.cat(parts), bucket.buffer(), rtol=0, atol=0)
            held = [names[id(parameter)] for parameter in bucket.parameters()]
            seen.append((bucket.index(), bucket.is_last(), held))
            return default_hooks.allreduce_hook(dist.group.WORLD, bucket)

        plain, ddp = copy.deepcopy(model), self.wrap(model, bucket_cap_mb=0.001)
        ddp.register_comm_hook(seen, hook)
        layers = ["2.weight", "1.weight", "0.weight"]
        learned = [(0, False, layers[:1]), (1, False, layers[1:2]), (2, True, layers[2:])]
        for expected in ([(0, True, layers[::-1])], learned, learned):
            seen.clear()
            for one in (plain, ddp):
                one.zero_grad()
            rows = self.draw(4 * self.world_size, 20)
            self.backward_beside(plain, ddp, rows, lambda one, part: one(part).square().mean())
            self.assertEqual(seen, expected)
            self.same_gradients(plain, ddp)

    @needs(Capability.SPARSE)
    def test_ddp_comm_hook_sparse_gradients(self):
        # Each rank looks up its own row, and row 5; the sums come with the rows of both.
        model = nn.EmbeddingBag(10, 3, sparse=True, mode="sum").to(self.device)
        rows = torch.tensor([[self.rank, 5]], device=self.device)
        ddp = self.wrap(model)
        ddp.register_comm_hook(dist.group.WORLD, sum_hook)
        ddp(rows).sum().backward()
        gradient = ddp.module.weight.grad
        self.assertTrue(gradient.is_sparse)
        expected = torch.zeros(10, 3)
        expected[0] = expected[1] = 1
        expected[5] = 2
        self.assertEqual(gradient.to_dense(), expected)

    def powersgd_step(self, rank, iterations):
        """Return DDP's gradient under PowerSGD of this matrix rank, and the true average, of the last step.

        A row a rank makes the average a matrix of rank two.
        """
        model = nn.Linear(20, 20, bias=False).to(self.device)
        ddp = self.wrap(model)
        self.skip_where_powersgd_needs_a_gpu()
        state = powerSGD_hook.PowerSGDState(
            process_group=None, matrix_approximation_rank=rank, start_powerSGD_iter=2
        )
        ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        for _ in range(iterations):
            model.zero_grad()
            ddp.zero_grad()
            rows = self.draw(self.world_size, 40)
            self.backward_beside(
                model, ddp, rows, lambda one, part: mse_loss(one(part[:, :20]), part[:, 20:])
            )
        self.assertEqual(state.iter, iterations)
        return ddp.module.weight.grad, model.weight.grad

    def test_powerSGD_before_it_starts(self):
        actual, expected = self.powersgd_step(1, iterations=2)
        self.assertEqual(actual, expected, **FACTORED)

    def test_powerSGD_keeps_what_fits(self):
        actual, expected = self.powersgd_step(2, iterations=3)
        self.assertEqual(actual, expected, **FACTORED)

    def test_powerSGD_drops_what_does_not_fit(self):
        actual, expected = self.powersgd_step(1, iterations=3)
        self.assertEqual(torch.linalg.matrix_rank(expected, rtol=1e-4).item(), 2)
        self.assertEqual(torch.linalg.matrix_rank(actual, rtol=1e-4).item(), 1)
        # What is left of the true average is what lies along one direction, whichever that is.
        direction = torch.linalg.svd(actual).U[:, :1]
        self.assertEqual(actual, direction @ (direction.T @ expected), **FACTORED)


class NcclCommHookTest(CommHookTestCase):
    """The built-in hooks on NCCL, an accelerator a rank."""

    backend = "nccl"
    device_type = "cuda"

    @requires_nccl()
    @skip_if_lt_x_gpu(2)
    def test_builtin_ddp_comm_hooks_nccl(self):
        self.check_builtin(view=False)

    @requires_nccl()
    @skip_if_lt_x_gpu(2)
    def test_builtin_ddp_comm_hooks_nccl_grad_is_view(self):
        self.check_builtin(view=True)


class DdpCommHookRefusalTest(DdpTestCase):
    """Hooks that DDP does not take."""

    def setUpRank(self):
        super().setUpRank()
        self.ddp = self.wrap(ModuleForDdpCommHook().to(self.device))

    def check_still_averages(self):
        """Check that DDP reduces as if nobody had tried to register anything."""
        (self.ddp(torch.ones(2, 2, device=self.device), self.rank).mean() * (self.rank + 1)).backward()
        self.assertEqual(self.ddp.module.t0.p.grad, torch.full((2, 2), SCALED))

    def test_ddp_invalid_comm_hook_init(self):
        with self.refused(TypeError, "Communication hook must be callable."):
            self.ddp.register_comm_hook(state=None, hook=1)

        def annotated(state: object, bucket: int) -> torch.futures.Future[torch.Tensor]:
            return simple_hook(state, bucket)

        with self.refused(ValueError, "bucket annotation should be dist.GradBucket."):
            self.ddp.register_comm_hook(state=None, hook=annotated)
        self.check_still_averages()

    def test_ddp_invalid_comm_hook_return_type(self):
        def annotated(state: object, bucket: dist.GradBucket) -> int:
            return simple_hook(state, bucket)

        with self.refused(ValueError, "return annotation should be torch.futures.Future[torch.Tensor]."):
            self.ddp.register_comm_hook(state=None, hook=annotated)
        self.check_still_averages()

    def test_ddp_comm_hook_that_returns_no_future(self):
        self.ddp.register_comm_hook(None, lambda state, bucket: 1)
        with self.assertRaisesRegex(RuntimeError, "Future"):
            self.ddp(torch.ones(2, 2, device=self.device), self.rank).mean().backward()

    def test_ddp_comm_hook_register_just_once(self):
        self.ddp.register_comm_hook(None, simple_hook)
        once = "hook can only be called once."
        with self.refused(RuntimeError, once):
            self.ddp.register_comm_hook(None, sum_hook)
        with self.refused(RuntimeError, once):
            self.ddp._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
        self.ddp(torch.ones(2, 2, device=self.device), self.rank).mean().backward()
        self.assertEqual(self.ddp.module.t0.p.grad, torch.full((2, 2), 2.0))

    def test_bf16_hook_needs_a_backend_for_it(self):
        if self.device_type != "cpu" or dist.is_nccl_available():
            self.skipTest("what a build for accelerators supports is not refused")
        with self.refused(TypeError, "BF16 all reduce communication hook required"):
            self.ddp.register_comm_hook(None, default_hooks.bf16_compress_hook)
        self.check_still_averages()


if __name__ == "__main__":
    run_tests()
