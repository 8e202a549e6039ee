"""DDP's gradients and placements: what a wrapped model learns is what one model on all rows would learn.

Placements over several accelerators are here for machines that have them; every body runs on the CPU too.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch.nn.functional import cross_entropy, mse_loss

from harness import (  # noqa: F401  (unittest calls load_tests)
    load_tests,
    requires_nccl,
    run_tests,
    skip_if_lt_x_gpu,
)
from harness.targets import Capability, needs
from suites.c10d.ddp_base import ROUNDED, SEED, DdpTestCase
from suites.c10d.ddp_models import (
    CHANNELS,
    ConvNet,
    DataclassOutputModule,
    DoubleGpuNet,
    Net,
    QuadraGpuNet,
    SparseGradientModule,
)

#: What cuDNN's convolutions of one image and of two differ by, in gradients around 0.001 to 0.1.
CONVOLVED = {"rtol": 1.3e-6, "atol": 2e-5}
#: Smaller than most layers of the models here, so that they are reduced in several buckets. In MB.
SMALL_BUCKETS = 0.001
#: The dtypes of four layers; buckets hold one dtype each.
LAYERS = ([torch.float32] * 4, [torch.float64, torch.float32] * 2)
ONLY_ACCELERATORS = "DistributedDataParallel device_ids and output_device arguments only work with"


class DdpPlacementTest(DdpTestCase):
    """Training with DDP on every placement of the model's layers."""

    def check_training(self, model, devices, *, device_ids=None, multi_device=False, view=False):
        """Train in DDP beside a plain model, two steps, and compare parameters after each.

        The model lies on ``devices`` already; each rank has as many rows as there are devices.
        """
        plain = copy.deepcopy(model)
        ddp = self.wrap(
            model, device_ids=device_ids, bucket_cap_mb=SMALL_BUCKETS, gradient_as_bucket_view=view
        )
        self.assertEqual(self.logged(ddp, "is_multi_device_module"), int(multi_device))
        for _ in range(2):
            rows = torch.randn(len(devices) * self.world_size, 6).to(devices[0])
            self.backward_beside(plain, ddp, rows, lambda one, part: mse_loss(one(part[:, :2]), part[:, 2:]))
            for parameter in (*plain.parameters(), *ddp.parameters()):
                if parameter.grad is not None:
                    parameter.data -= parameter.grad
                    parameter.grad = None
            self.same_parameters(plain, ddp)

    def gpus(self, count):
        """Return this rank's accelerators, when each rank has ``count`` for itself."""
        return [torch.device(self.device_type, self.rank * count + index) for index in range(count)]

    @needs(device_type="cpu")
    def test_gloo_backend_cpu_module(self):
        self.check_training(Net(), ["cpu"])

    @needs(device_type="cpu")
    def test_gloo_backend_cpu_module_grad_is_view(self):
        self.check_training(Net(), ["cpu"], view=True)

    @needs(device_type="cpu")
    def test_gloo_backend_2cpu_module(self):
        self.check_training(DoubleGpuNet(["cpu"] * 2), ["cpu"] * 2)

    @needs(device_type="cpu")
    def test_gloo_backend_4cpu_module(self):
        self.check_training(QuadraGpuNet(["cpu"] * 4), ["cpu"] * 4)

    @skip_if_lt_x_gpu(2)
    def test_gloo_backend_1gpu_module_device_ids_integer_list(self):
        devices = self.gpus(1)
        self.check_training(Net().to(devices[0]), devices, device_ids=[devices[0].index])

    @skip_if_lt_x_gpu(2)
    def test_gloo_backend_1gpu_module_device_ids_torch_device_list(self):
        devices = self.gpus(1)
        self.check_training(Net().to(devices[0]), devices, device_ids=devices)

    @skip_if_lt_x_gpu(4)
    def test_gloo_backend_2gpu_module(self):
        devices = self.gpus(2)
        self.check_training(DoubleGpuNet(devices), devices, multi_device=True)

    @skip_if_lt_x_gpu(8)
    def test_gloo_backend_4gpu_module(self):
        devices = self.gpus(4)
        self.check_training(QuadraGpuNet(devices), devices, multi_device=True)

    @needs(device_type="cpu")
    def test_device_ids_on_cpu(self):
        for device_ids in ([0], [torch.device("cpu")]):
            with self.refused(ValueError, ONLY_ACCELERATORS, device_ids=str(device_ids)):
                self.wrap(Net(), device_ids=device_ids)
        self.check_training(Net(), ["cpu"], device_ids=[])

    def test_gradients_are_bucket_views(self):
        # Two layers of a bucket: as views their gradients share its storage, else each has its own.
        for view in (False, True):
            with self.subTest(view=view):
                model = Net().to(self.device)
                plain, ddp = copy.deepcopy(model), self.wrap(model, gradient_as_bucket_view=view)
                rows = self.draw(self.world_size, 2)
                for _ in range(2):
                    plain.zero_grad()
                    ddp.zero_grad()
                    self.backward_beside(plain, ddp, rows, lambda one, part: one(part)[:, 0].mean())
                self.same_gradients(plain, ddp)
                storages = {each.grad.untyped_storage().data_ptr() for each in ddp.parameters()}
                self.assertEqual(len(storages), 1 if view else 3)


class DdpGradientTest(DdpTestCase):
    """Gradients of DDP where they are sparse, missing, or laid out in another way than the rows of memory."""

    def check_sparse_gradients(self, *, view):
        model = SparseGradientModule().to(self.device)
        plain, ddp = copy.deepcopy(model), self.wrap(model, gradient_as_bucket_view=view)
        count = 2 * self.world_size
        # The columns: two numbers to look up, and the class to hit.
        rows = torch.randint(0, 10, (count, 3)).to(self.device)
        self.backward_beside(plain, ddp, rows, lambda one, part: cross_entropy(one(part[:, :2]), part[:, 2]))
        expected, actual = plain.embedding.weight.grad, ddp.module.embedding.weight.grad
        self.assertTrue(actual.is_sparse)
        self.assertEqual(actual.coalesce().indices(), expected.coalesce().indices())
        self.assertEqual(actual.to_dense(), expected.to_dense(), **ROUNDED)

    @needs(Capability.SPARSE)
    def test_sparse_gradients(self):
        self.check_sparse_gradients(view=False)

    @needs(Capability.SPARSE)
    def test_sparse_gradients_grad_is_view(self):
        self.check_sparse_gradients(view=True)

    def check_dataclass_output(self, *, skip_o1):
        """Train on rows that are each rank's number plus one: alike on no two ranks."""

        def loss(model, rows):
            output = model(rows)
            total = output.o2["a"] + output.o2["b"]
            self.assertIs(output.o1 is None, skip_o1)
            return mse_loss(total if skip_o1 else total + output.o1, torch.ones_like(total))

        torch.manual_seed(0)
        model = DataclassOutputModule(skip_o1).to(self.device)
        plain = copy.deepcopy(model)
        ddp = self.wrap(model, find_unused_parameters=True, static_graph=False)
        rows = torch.arange(self.world_size).repeat_interleave(4)[:, None].expand(-1, 10) + 1.0
        self.backward_beside(plain, ddp, rows.to(self.device), loss)
        lacking = {name.split(".")[0] for name, each in plain.named_parameters() if each.grad is None}
        self.assertEqual(lacking, {"seq1"} if skip_o1 else set())
        self.same_gradients(plain, ddp)

    def test_dataclass_output(self):
        self.check_dataclass_output(skip_o1=False)

    def test_dataclass_output_unused_param(self):
        self.check_dataclass_output(skip_o1=True)

    def test_conv_net_layouts_cpu(self):
        for dtypes in LAYERS:
            check_layouts(self, dtypes)


class NcclGradientTest(DdpTestCase):
    """The same on NCCL, an accelerator a rank."""

    backend = "nccl"
    device_type = "cuda"

    @requires_nccl()
    @skip_if_lt_x_gpu(2)
    def test_grad_layout_1devicemodule_1replicaperprocess(self):
        for dtypes in LAYERS:
            check_layouts(self, dtypes)


def check_layouts(case, dtypes):
    """Check values and strides of the gradients of convolutions, each in a layout and dtype of its own."""
    rows, last = torch.contiguous_format, torch.channels_last
    for layouts in ([rows] * 4, [last] * 4, [rows, last] * 2, [last, rows] * 2):
        with case.subTest(layouts=[str(each) for each in layouts], dtypes=[str(each) for each in dtypes]):
            torch.manual_seed(SEED)
            model = ConvNet(case.device, layouts, dtypes)
            plain, ddp = copy.deepcopy(model), case.wrap(model, bucket_cap_mb=SMALL_BUCKETS)
            for _ in range(2):
                plain.zero_grad()
                ddp.zero_grad()
                images = case.draw(case.world_size, CHANNELS[0], 8, 8)
                case.backward_beside(plain, ddp, images, lambda one, part: one(part).square().mean())
                case.same_gradients(plain, ddp, ROUNDED if case.device_type == "cpu" else CONVOLVED)
                for parameter in ddp.parameters():
                    case.assertEqual(parameter.grad.stride(), parameter.stride())


if __name__ == "__main__":
    run_tests()
