"""BERT in FSDP1 and FSDP2, compiled: losses, logits and shards of gradients by rank, beside a plain copy.

Each rank has tokens of its own, and draws its own dropout. What it must arrive at is computed in the rank by
itself: the loss of its own tokens, and its shard of the mean of the gradients from each rank's.

The standard run has one unit in FSDP1 and units within each other in FSDP2, ``suites/fsdp`` all four, with
smaller models. BERT by inductor is for ``--slow``: inductor gets its graphs from AOTAutograd, with which
aot_eager ends, and compiles smaller models there.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointWrapper

from harness import (  # noqa: F401  (unittest calls load_tests)
    load_tests,
    memory_mb,
    run_tests,
    slow_test,
    timeout,
)
from suites.dynamo import bert
from suites.dynamo.base import learn
from suites.fsdp import reference
from suites.fsdp.base import FsdpTestCase, checkpointed, held


@bert.needs_bert
@timeout(bert.SMALL_S)
class BertFsdpTest(FsdpTestCase):
    """On two ranks, in FSDP1."""

    sharding = "FSDP1"
    size, size_in_units = bert.SMALLER, bert.SMALLER_TWICE
    shape = bert.SMALL_BATCH

    def prepare(self, *, whole):
        """Set inductor up to draw dropout as eager does, from the same generator; return a plain model."""
        torch._inductor.config.fallback_random = True
        torch._inductor.config.triton.cudagraphs = False
        return bert.bert(self.size if whole else self.size_in_units)

    def wrapped(self, model, *, recomputed):
        """The model in FSDP, with each layer in a unit of its own if it is to be recomputed.

        Also returns what says, of whole tensors, which part this rank holds.
        """
        sharded = self.fsdp1(model, *([bert.layer_class()] if recomputed else []))
        if recomputed:
            checkpointed(sharded, bert.is_layer)
        units = bert.units(model) if recomputed else [[name for name, _ in model.named_parameters()]]
        return sharded, lambda whole: reference.flat_shards(whole, units, self.rank, self.world_size)

    def check_bert(self, backend, *, whole):
        """Run a step on each rank's tokens, compare this rank's, and run another; the graphs serve both.

        One graph of the whole, or three: of the embeddings, of a layer (it serves all), and of the head.
        """
        plain = self.prepare(whole=whole)
        sharded, shards = self.wrapped(plain, recomputed=not whole)
        counter = self.counted(backend)
        compiled = torch.compile(sharded, backend=counter)
        for step in range(2):
            everybody = range(step * self.world_size, (step + 1) * self.world_size)
            alone = [self.alone(plain, which) for which in everybody]
            output, gradients = self.learned(compiled, sharded, everybody[self.rank])
            own = alone[self.rank]
            self.assertEqual(output.loss.detach().cpu(), own.loss, **bert.ROUNDED)
            self.assertEqual(output.logits.detach().cpu(), own.output.logits, **bert.ROUNDED)
            means = {
                name: torch.stack([learned.gradients[name] for learned in alone]).mean(0)
                for name in own.gradients
            }
            self.assertEqual(gradients, shards(means), f"gradients of step {step}", **bert.ROUNDED)
        layers = plain.config.num_hidden_layers
        one = {"embedding": 3, "scaled_dot_product_attention": layers}
        three = ({"embedding": 3}, {"tag_activation_checkpoint": 1}, {"linear": 2, "cross_entropy": 1})
        self.check_graphs(counter, *([one] if whole else three))
        if not whole:  # the head's two layers; the six of a layer, which are computed again; no other
            self.assertEqual(counter.products(), [4, 12 + 6, 0])

    def alone(self, plain, which):
        """What the plain model makes of a batch."""
        bert.seed_dropout(which)
        return learn(plain, loss=bert.loss_of, **bert.batch_of(self.size, self.shape, which))

    def learned(self, compiled, sharded, which):
        """What the compiled one puts out for a batch, and this rank's shards of the gradients."""
        batch = bert.batch_of(self.size, self.shape, which, self.device)
        bert.seed_dropout(which)
        output = compiled(**batch)
        output.loss.backward()
        gradients, _ = held(sharded)
        sharded.zero_grad()
        return output, gradients

    @slow_test
    def test_hf_bert_fsdp(self):
        self.check_bert("inductor", whole=True)

    @slow_test
    def test_hf_bert_fsdp_activation_checkpointing(self):
        self.check_units("inductor")

    def test_hf_bert_fsdp_aot_eager(self):
        """One unit: one graph of the whole model."""
        self.check_bert("aot_eager", whole=True)

    @slow_test
    def test_hf_bert_fsdp_activation_checkpointing_aot_eager(self):
        self.check_units("aot_eager")

    def check_units(self, backend):
        """Each layer in a unit and recomputed: graphs of what comes before, of layers, and of the head."""
        torch._dynamo.config.guard_nn_modules = True
        self.check_bert(backend, whole=False)


class BertFullyShardTest(BertFsdpTest):
    """On two ranks, sharded in place."""

    sharding = "FSDP2"

    def wrapped(self, model, *, recomputed):
        """As for FSDP1; the unit is what is recomputed, and not inside of it."""
        sharded = bert.moved(copy.deepcopy(model), self.device)
        if recomputed:
            checkpointed(sharded, bert.is_layer)
        self.fsdp2(sharded, *([CheckpointWrapper] if recomputed else []))
        return sharded, lambda whole: reference.row_shards(whole, self.rank, self.world_size)

    @slow_test
    def test_hf_bert_fsdp_aot_eager(self):
        self.check_bert("aot_eager", whole=True)

    def test_hf_bert_fsdp_activation_checkpointing_aot_eager(self):
        self.check_units("aot_eager")


@slow_test
@timeout(bert.FULL_SIZE_S)
@memory_mb(2 * bert.FULL_SIZE_MB)
class BertFullSizeFsdpTest(BertFsdpTest):
    """With BERT's own sizes."""

    size = size_in_units = bert.FULL_SIZE
    shape = bert.FULL_BATCH


@slow_test
@timeout(bert.FULL_SIZE_S)
@memory_mb(2 * bert.FULL_SIZE_MB)
class BertFullSizeFullyShardTest(BertFullyShardTest):
    """With BERT's own sizes."""

    size = size_in_units = bert.FULL_SIZE
    shape = bert.FULL_BATCH


if __name__ == "__main__":
    run_tests()
