"""The modules that the sweep treats in their own way, and why. Found on torch 2.13's CPU build.

Modules are named as in the tests' names, with ``_train_mode`` and ``_eval_mode`` where the two differ.
"""

from __future__ import annotations

import torch

from suites.aot.sweep import Known

STATIC, SYMBOLIC = ("static",), ("symbolic",)

_BRANCH = "it asks whether any variance is negative, or whether a mask is the causal one"

KNOWN: tuple[Known, ...] = (
    Known(
        "nn_BatchNorm1d_train_mode nn_BatchNorm2d_train_mode nn_BatchNorm3d_train_mode",
        "DataDependentOutputException",
        r"^aten\._local_scalar_dense\.default$",
        "with momentum=None the weight of a batch is one by their number, which is a buffer",
        STATIC,
    ),
    Known(
        "nn_BatchNorm1d_train_mode nn_BatchNorm2d_train_mode nn_BatchNorm3d_train_mode",
        "GuardOnDataDependentSymNode",
        "Could not extract specialized integer from data-dependent expression u0",
        "with momentum=None the weight of a batch is one by their number, which is a buffer",
        SYMBOLIC,
    ),
    Known(
        "nn_CTCLoss",
        "UnsupportedOperatorException",
        r"^aten\._use_cudnn_ctc_loss\.Tensor$",
        "with a GPU, cuDNN is asked first, also on the CPU, by an operator that computes no sizes alone",
    )
    if torch.cuda.is_available()
    else Known(
        "nn_CTCLoss",
        "DynamicOutputShapeException",
        r"^aten\._ctc_loss\.(default|Tensor)$",
        "the lengths of the targets are values",
    ),
    Known(
        "nn_GaussianNLLLoss nn_Transformer nn_TransformerEncoder_eval_mode nn_TransformerEncoder_train_mode",
        "DataDependentOutputException",
        r"^aten\._local_scalar_dense\.default$",
        _BRANCH,
        STATIC,
    ),
    Known(
        "nn_GaussianNLLLoss nn_Transformer nn_TransformerEncoder_eval_mode nn_TransformerEncoder_train_mode",
        "GuardOnDataDependentSymNode",
        r"^Could not guard on data-dependent expression Eq\(u0, 1\)",
        _BRANCH,
        SYMBOLIC,
    ),
    Known(
        "nn_FractionalMaxPool3d",
        "UnsupportedOperatorException",
        r"^aten\.fractional_max_pool3d_backward\.default$",
        "backward has no kernel that computes sizes alone",
        SYMBOLIC,
    ),
    Known(
        "nn_MultiLabelMarginLoss",
        "AssertionError",
        r"shape \(1,\) compiled, \(\) in eager",
        "compiled_multilabel_margin_loss of the book: the graph's result has a dimension more",
    ),
)

#: Tests that are never in the sample, with the reason: they take from half a minute to some minutes.
LONG: dict[str, str] = {
    "nn_LinearCrossEntropyLoss": "857 inputs",
    **dict.fromkeys(
        (
            "nn_CrossEntropyLoss",
            "nn_MultiheadAttention_eval_mode",
            "nn_MultiheadAttention_train_mode",
            "nn_Transformer",
            "nn_TransformerDecoderLayer",
            "nn_TransformerEncoderLayer_eval_mode",
            "nn_TransformerEncoderLayer_train_mode",
            "nn_TransformerEncoder_eval_mode",
            "nn_TransformerEncoder_train_mode",
        ),
        "dozens of inputs of a large program",
    ),
    **dict.fromkeys(
        (
            "nn_GRU_eval_mode",
            "nn_GRU_train_mode",
            "nn_LSTM_eval_mode",
            "nn_LSTM_train_mode",
            "nn_RNN_eval_mode",
            "nn_RNN_train_mode",
        ),
        "the steps are unrolled, layer by layer",
    ),
}
