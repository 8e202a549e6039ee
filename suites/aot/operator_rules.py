"""The operators that the sweep treats in their own way, and why. Found on torch 2.13's CPU build.

Operators are named as in the tests' names: ``linalg.svd`` is ``linalg_svd``, a variant stands at the end.
A failure stands for at least one of an operator's samples; those that do not fail so have to pass.
"""

from __future__ import annotations

from harness.graphs.differences import Tolerance
from suites.aot.known import Known

STATIC, SYMBOLIC = ("static",), ("symbolic",)

_SIZE = "the size of the result depends on values, and a static graph has no place for it"
_NUMBER = "it takes a number out of a tensor, which is not known before there are values"
_ANSWER = "it asks for an answer, yes or no, that is not known before there are values"
_NO_SIZES = "torch has no kernel that computes its sizes alone; a static graph computes with zeros instead"
_SPARSE = "the compiler cannot take a sparse tensor apart"

KNOWN: tuple[Known, ...] = (
    # What depends on values.
    Known(
        "__getitem__ argwhere index_put nonzero",
        "DynamicOutputShapeException",
        r"^aten\.nonzero\.default$",
        _SIZE,
        STATIC,
    ),
    Known(
        "combinations masked_select",
        "DynamicOutputShapeException",
        r"^aten\.masked_select\.default$",
        _SIZE,
        STATIC,
    ),
    Known(
        "unique unique_consecutive",
        "DynamicOutputShapeException",
        r"^aten\.(_unique2|unique_dim|unique_consecutive)\.default$",
        _SIZE,
        STATIC,
    ),
    Known(
        "index_fill", "DynamicOutputShapeException", r"^aten\._unique\.default$", _SIZE, STATIC, since="2.13"
    ),
    Known(
        "repeat_interleave",
        "DynamicOutputShapeException",
        r"^aten\.repeat_interleave\.Tensor$",
        _SIZE,
        STATIC,
    ),
    Known(
        "nn_functional_ctc_loss",
        "DynamicOutputShapeException",
        r"^aten\._ctc_loss\.(default|Tensor)$",
        "the lengths of the targets, which it makes a tensor of, are values",
    ),
    Known(
        "linalg_lstsq linalg_lstsq_grad_oriented",
        "DynamicOutputShapeException",
        r"^aten\.linalg_lstsq\.default$",
        "whether there are residuals depends on the rank, so torch knows no size for them",
    ),
    Known("allclose", "DataDependentOutputException", r"^aten\.allclose\.default$", _ANSWER),
    Known("equal", "DataDependentOutputException", r"^aten\.equal\.default$", _ANSWER),
    Known(
        "corrcoef cov",
        "DataDependentOutputException",
        r"^aten\.equal\.default$",
        "it asks whether its degrees of freedom, a tensor, are above 0",
    ),
    Known(
        "cov",
        "RuntimeError",
        r"^Cannot call numel\(\) on tensor with symbolic sizes/strides",
        "it counts its weights in C++, without symbols",
        SYMBOLIC,
    ),
    Known(
        "flex_attention_backward_simple",
        "TypeError",
        "'NoneType' object is not callable",
        "it calls the forward's graph, in place of which the sample has None",
        SYMBOLIC,
        since="2.12",
        before="2.13",
    ),
    Known(
        "flex_attention_backward_simple",
        "NotImplementedError",
        "FlexAttention does not support backward on CPU",
        "with sizes that vary, the samples' inputs are refused for the gradients that they want",
        SYMBOLIC,
        before="2.12",
    ),
    Known(
        "item narrow nn_functional_gaussian_nll_loss tensor_split",
        "DataDependentOutputException",
        r"^aten\._local_scalar_dense\.default$",
        _NUMBER,
        STATIC,
    ),
    Known(
        "tensor_split",
        "GuardOnDataDependentSymNode",
        "Could not extract specialized integer from data-dependent expression u0",
        "into how many pieces it splits is a number from a tensor",
        SYMBOLIC,
    ),
    Known(
        "nn_functional_gaussian_nll_loss",
        "GuardOnDataDependentSymNode",
        r"^Could not guard on data-dependent expression Eq\(u0, 1\)",
        "it asks whether any variance is negative",
        SYMBOLIC,
    ),
    # What the compiler has no means for.
    Known("geqrf", "UnsupportedOperatorException", r"^aten\.geqrf\.default$", _NO_SIZES, SYMBOLIC),
    Known(
        "histogram",
        "UnsupportedOperatorException",
        r"^aten\.histogram\.(bins_tensor|bin_ct)$",
        _NO_SIZES,
        SYMBOLIC,
    ),
    Known(
        "histogramdd",
        "UnsupportedOperatorException",
        r"^aten\._histogramdd_(bin_edges|from_bin_tensors)\.default$",
        _NO_SIZES,
        SYMBOLIC,
    ),
    Known(
        "nn_functional_fractional_max_pool3d",
        "UnsupportedOperatorException",
        r"^aten\.fractional_max_pool3d_backward\.default$",
        "backward has no kernel that computes sizes alone",
        SYMBOLIC,
    ),
    Known(
        "resize_",
        "RuntimeError",
        "^tried to directly modify sizes for customized tensor",
        "a tensor of symbolic size is not resized in place",
        SYMBOLIC,
    ),
    Known(
        "resize_as_",
        "RuntimeError",
        "INTERNAL ASSERT FAILED.*dispatch_on_subclass called with NO overloaded args",
        "a bug of torch: an assertion of its own fails on the symbolic sizes of the other tensor",
        SYMBOLIC,
    ),
    Known(
        "sparse_mm_reduce sparse_sampled_addmm",
        "AssertionError",
        r"^Please convert all Tensors to FakeTensors first .* Found in aten\.crow_indices\.default",
        _SPARSE,
    ),
    Known(
        "to_sparse",
        "NotImplementedError",
        r"could not find kernel for aten\.as_strided\.default at dispatch key DispatchKey\.SparseCPU",
        _SPARSE,
        STATIC,
    ),
    Known(
        "to_sparse",
        "UnsupportedOperatorException",
        r"^aten\._to_sparse\.(default|sparse_dim)$",
        _SPARSE,
        SYMBOLIC,
    ),
    Known(
        "while_loop_simple while_loop_stack_output_simple",
        "AttributeError",
        "^'NoneType' object has no attribute 'ignore_fresh_unbacked_symbols'$",
        "the number of turns is a symbol, for which it takes a ShapeEnv, that static tracing has none of",
        STATIC,
    ),
    Known(
        "chalf",
        "NotImplementedError",
        "\"sum_cpu\" not implemented for 'ComplexHalf'",
        "eager mode does not add up complex halves either",
    ),
    # What is other than in eager mode.
    Known(
        "broadcast_shapes",
        "AssertionError",
        r"eager returned TreeSpec\(Size,",
        "a torch.Size comes back as a list",
    ),
    Known(
        "nn_functional_dropout",
        "AssertionError",
        r":\n  the output: is_leaf .*\n  the output: shares memory with nothing compiled, input 0 in eager"
        r"\n  the output: is a view of, .* input 0 in eager(\n  the output: is the object of .*)?\Z",
        "compiled_dropout_in_evaluation of the book: in eager mode alone it is the input",
    ),
    Known(
        "ravel",
        "AssertionError",
        r":\n  the output: shares memory with nothing compiled, input 0 in eager"
        r"\n  the output: is a view of, .* input 0 in eager\Z",
        "of an input with gaps, eager mode makes a view and the graph a copy",
    ),
    Known(
        "native_group_norm",
        "AssertionError",
        r":(\n  gradient of input 0 through output [12]: there is none in eager)+\Z",
        "in eager mode nothing goes back through mean and rstd alone, though they have a derivative",
    ),
    Known(
        "register_hook_simple",
        "AssertionError",
        r":\n  gradient of input 0 through the output: values differ: .* 0\.25 compiled, 0\.5 in eager .*\Z",
        "aot_hook_of_returned_argument of the book: what is returned has no backward in the graph",
    ),
)

#: What is compared otherwise.
_MEMORY = "the result holds whatever is in memory"
_LAST = "where indices repeat torch does not say which of them wins; in the _grad variant none does"
UNDETERMINED: dict[str, str] = {
    **dict.fromkeys(
        ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"), _MEMORY
    ),
    **dict.fromkeys(
        ("nn_functional_max_unpool1d", "nn_functional_max_unpool2d", "nn_functional_max_unpool3d"), _LAST
    ),
}
"""Their values are not compared."""

PROCESSED = {
    "linalg_eig": "eigenvectors are determined up to a phase, and backward refuses what depends on it",
}
"""What is compiled is the operator and what the database puts behind it so that it may be differentiated."""

TOLERANCES = {
    # Gradients of an inverse of matrices that are close to singular: some 150 here, of entries around 1.
    "cholesky_inverse": Tolerance(rtol=1e-4, atol=1e-5),
    # Gradients of singular vectors divide by differences of squared singular values.
    "pca_lowrank": Tolerance(rtol=1e-4, atol=1e-5),
}
"""Where graph and eager mode compute in another order, and what they compute is badly conditioned."""

GPU = frozenset(
    (
        "jiterator_2inputs_2outputs",
        "jiterator_4inputs_with_extra_args",
        "jiterator_binary",
        "jiterator_binary_return_by_ref",
        "jiterator_unary",
    )
)
"""Operators that only a GPU has; there they run."""

#: Tests that are never in the sample. Most run in their thousands of samples for some minutes.
LONG: dict[str, str] = {
    **dict.fromkeys(
        (
            "_segment_reduce_lengths",
            "_segment_reduce_offsets",
            "cdist",
            "eye",
            "histc",
            "histogram",
            "histogramdd",
            "linalg_lu_solve",
            "linalg_norm",
            "linalg_norm_subgradients_at_zero",
            "linalg_solve_triangular",
            "linalg_svd",
            "linalg_vector_norm",
            "linspace_tensor_overload",
            "logspace",
            "logspace_tensor_overload",
            "lu_solve",
            "masked_norm",
            "max_pool2d_with_indices_backward",
            "nn_functional_gaussian_nll_loss",
            "nn_functional_linear_cross_entropy",
            "nn_functional_linear_cross_entropy_chunked",
            "nn_functional_linear_cross_entropy_chunked_none",
            "nn_functional_max_pool1d",
            "nn_functional_max_pool2d",
            "nn_functional_max_pool3d",
            "nn_functional_max_unpool1d",
            "nn_functional_max_unpool2d",
            "nn_functional_max_unpool3d",
            "nn_functional_unfold",
            "ormqr",
            "searchsorted",
            "svd",
            "unique",
            "unique_consecutive",
        ),
        "more than 75 samples",
    ),
    "linalg_pinv_singular": "more than a quarter of a minute with symbolic sizes, for 48 samples",
    "nanquantile": "more than a quarter of a minute with symbolic sizes, for 60 samples",
    "svd_lowrank": "it is a long program of decompositions",
}
