"""BERT from a configuration: what the suites of compiled models train that is no toy. Nothing is downloaded.

Small by default: one layer, with an output layer that alone fills DDP's first bucket of 1 MiB.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from harness import import_transformers_or_skip
from harness.cases import defaults
from harness.seeding import seed_all

# Without transformers the tests skip (needs_bert). Its hub, which is not to be asked, reads this on import.
with contextlib.suppress(ImportError), mock.patch.dict(os.environ, HF_HUB_OFFLINE="1"):
    import transformers
    from transformers.models.bert import modeling_bert

needs_bert = import_transformers_or_skip()

#: Arguments of a configuration whose model is compiled in seconds: a million parameters.
SMALL = {
    "vocab_size": 4096,
    "hidden_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 512,
    "max_position_embeddings": 64,
}
#: The same with less to compile. Dropout of the attention would make many operators of one, and seven kernels
#: more for the compiler of C++; the embeddings and the layer have dropout all the same.
SMALLER = {**SMALL, "attention_probs_dropout_prob": 0}
#: With layers that share a graph.
SMALLER_TWICE = {**SMALLER, "num_hidden_layers": 2}
#: BERT's own defaults: 12 layers, 109.5 million parameters.
FULL_SIZE: dict[str, int] = {}
#: Rows of a rank, and tokens a row.
SMALL_BATCH, FULL_BATCH = (2, 16), (4, 512)
#: Seconds for a test of a small one. It takes ten, and ten times as long where others compile as well.
SMALL_S = 400
#: For a process that trains and compiles the full size: MiB at its peak, and seconds on two slow cores.
FULL_SIZE_MB = 6000
FULL_SIZE_S = 1200
#: What the order of adding up, and inductor's arithmetic, may change in logits and gradients of about 1.
ROUNDED = {"rtol": 1e-4, "atol": 1e-5}
SEED = 1337

Batch = dict[str, Tensor]


def bert(size: dict[str, int]) -> nn.Module:
    """A masked language model that is in training; its output layer has the weight of the embedding."""
    if defaults.accelerator()[0] != "cpu":
        # Each kernel of attention draws dropout in its own way, and a compiler may take another one.
        size = {**size, "attention_probs_dropout_prob": 0}
    model = transformers.AutoModelForMaskedLM.from_config(transformers.BertConfig(**size))
    return model.train()


def moved(model: nn.Module, device: torch.device | str) -> nn.Module:
    """The model on a device, with its shared weights shared there too.

    torch makes new parameters for a device whose tensors it cannot put in the place of the CPU's (that of
    ``PrivateUse1``), one for each name.
    """
    model.to(device)
    model.tie_weights()
    return model


def is_layer(module: nn.Module) -> bool:
    """Whether a module is one of BERT's layers."""
    return isinstance(module, modeling_bert.BertLayer)


def layer_class() -> type[nn.Module]:
    """The class of BERT's layers."""
    return modeling_bert.BertLayer


def units(model: nn.Module) -> list[list[str]]:
    """The names of the parameters of each unit, the root's first, where each layer is one."""
    layers = [name for name, module in model.named_modules() if is_layer(module)]
    names = [name for name, _ in model.named_parameters()]
    inner = [[name for name in names if name.startswith(f"{layer}.")] for layer in layers]
    return [[name for name in names if not any(name in unit for unit in inner)], *inner]


def batch_of(
    size: dict[str, int], shape: tuple[int, int], which: int, device: torch.device | str = "cpu"
) -> Batch:
    """Random tokens and labels for a model of a size; ``which`` tells batches apart."""
    tokens = transformers.BertConfig(**size).vocab_size
    generator = torch.Generator().manual_seed(SEED + which)
    names = ("input_ids", "labels")
    return {name: torch.randint(tokens, shape, generator=generator).to(device) for name in names}


def seed_dropout(which: int) -> None:
    """Start the generators at the same place for everybody who runs the batch ``which``."""
    seed_all(SEED + which)


def loss_of(output: Any) -> Tensor:
    """The loss that the model has computed."""
    return output.loss
