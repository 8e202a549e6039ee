"""A model under FSDP2 beside a plain copy of it, which computes from the rows of all ranks."""

from __future__ import annotations

import copy

from suites.fsdp import reference
from suites.fsdp.base import ROUNDED, FsdpTestCase
from suites.fsdp.models import Block, Net


class PlainCopyTestCase(FsdpTestCase):
    """Has a model, its rows, and a plain copy that computes from the rows of all ranks."""

    def setUpRank(self):
        super().setUpRank()
        self.plain = Net().to(self.device)
        self.batch = reference.batches(1, self.world_size, Net.WIDTHS)[0].to(self.device)

    def made(self, **options):
        """A sharded copy of the model, with its blocks as units."""
        return self.fsdp2(copy.deepcopy(self.plain), Block, **options)

    def backward(self, sharded, share=1.0):
        """The backward of this rank's loss."""
        loss = reference.loss_of(sharded, self.batch.of(self.rank))
        (loss * share).backward()
        return loss

    def backward_alone(self):
        """The backward of the mean over all ranks' rows, in the plain model."""
        reference.loss_of(self.plain, self.batch).backward()

    def check_gradients(self, sharded, times=1):
        """Check this rank's part of each gradient: ``times`` the plain model's."""
        plain = dict(self.plain.named_parameters())
        for name, parameter in sharded.named_parameters():
            mesh = parameter.device_mesh
            place, parts = mesh.get_local_rank(mesh.ndim - 1), mesh.size(mesh.ndim - 1)
            rows = reference.row_shards({name: plain[name].grad * times}, place, parts)[name]
            self.assertEqual(parameter.grad.placements, parameter.placements, name)
            self.assertEqual(parameter.grad.to_local(), rows, name, **ROUNDED)
