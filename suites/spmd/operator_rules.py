"""The operators that the sweep over DTensors leaves out, and why. Found on torch 2.13's CPU build.

An operator is left out where one of its samples fails. Operators are named as in the sweep's sub-tests.
"""

from __future__ import annotations

#: By the reason, the names, separated by blanks.
LEFT_OUT: dict[str, str] = {
    "DTensor has no strategy for an operator of it or of its backward": (
        "_chunk_cat _segment_reduce_lengths _segment_reduce_offsets _unsafe_masked_index "
        "_unsafe_masked_index_put_accumulate addbmm as_strided_copy as_strided_scatter block_diag cdist "
        "fft_ihfft2 fft_ihfftn hash_tensor histogram histogramdd isin linalg_householder_product "
        "masked_scatter nanquantile native_group_norm nn_functional_adaptive_avg_pool3d "
        "nn_functional_adaptive_max_pool1d nn_functional_adaptive_max_pool2d "
        "nn_functional_adaptive_max_pool3d nn_functional_avg_pool1d nn_functional_avg_pool2d "
        "nn_functional_avg_pool3d nn_functional_bilinear nn_functional_embedding_bag "
        "nn_functional_group_norm nn_functional_hardshrink nn_functional_hardsigmoid "
        "nn_functional_hardswish nn_functional_hardtanh nn_functional_interpolate_area "
        "nn_functional_linear_cross_entropy_chunked_none nn_functional_local_response_norm "
        "nn_functional_logsigmoid nn_functional_max_pool3d nn_functional_multi_margin_loss "
        "nn_functional_multilabel_margin_loss nn_functional_multilabel_soft_margin_loss "
        "nn_functional_pad_reflect nn_functional_pad_replicate nn_functional_pad_replicate_negative "
        "nn_functional_pdist nn_functional_prelu nn_functional_relu6 nn_functional_softshrink "
        "nn_functional_unfold nonzero_static normal normal_number_mean ormqr put quantile renorm "
        "repeat_interleave resize_ resize_as_ scatter_reduce_amax scatter_reduce_amin scatter_reduce_mean "
        "scatter_reduce_prod scatter_reduce_sum searchsorted stft take unfold unfold_copy"
    ),
    "its kernel refuses a shard without elements": (
        "amax aminmax argmin cov fft_fftn fft_ihfft fft_irfftn fft_rfft linalg_matrix_norm "
        "linalg_norm_subgradients_at_zero linalg_vector_norm masked_amin nn_functional_conv3d "
        "nn_functional_conv_transpose1d nn_functional_conv_transpose2d nn_functional_conv_transpose3d "
        "norm_inf"
    ),
    "no sample of it has a small tensor of a dimension or more": (
        "_upsample_bilinear2d_aa arange broadcast_shapes empty empty_permuted empty_strided eye full "
        "linspace linspace_tensor_overload logspace logspace_tensor_overload nn_functional_ctc_loss ones "
        "randint randn scalar_tensor signal_windows_bartlett signal_windows_blackman signal_windows_cosine "
        "signal_windows_exponential signal_windows_gaussian signal_windows_general_cosine "
        "signal_windows_general_hamming signal_windows_hamming signal_windows_hann signal_windows_kaiser "
        "signal_windows_nuttall slice_scatter zeros"
    ),
    "it does not run on tensors that stand for those of four ranks, or on this machine": (
        "copysign fft_ifft jiterator_2inputs_2outputs jiterator_4inputs_with_extra_args jiterator_binary "
        "jiterator_binary_return_by_ref jiterator_unary max_pool2d_with_indices_backward nextafter sgn "
        "sparse_mm_reduce sparse_sampled_addmm tensor_split to_sparse"
    ),
    "a result, or the gradient, of torch 2.13 is another than that of the whole": (
        "masked_logsumexp nn_functional_binary_cross_entropy nn_functional_binary_cross_entropy_with_logits "
        "nn_functional_cosine_embedding_loss nn_functional_huber_loss nn_functional_mse_loss "
        "nn_functional_nll_loss nn_functional_smooth_l1_loss nn_functional_soft_margin_loss scatter "
        "scatter_add"
    ),
    "its result is random, or never written": (
        "bernoulli cauchy empty_like exponential geometric log_normal new_empty new_empty_strided "
        "nn_functional_rrelu normal_in_place rand_like randint_like randn_like uniform"
    ),
    "a placement of its arguments is refused": (
        "allclose argwhere as_strided as_strided_partial_views broadcast_tensors broadcast_to "
        "cartesian_prod einsum expand expand_as expand_copy index_add index_fill item kron linalg_lstsq "
        "linalg_lstsq_grad_oriented linalg_pinv masked_log_softmax masked_select masked_softmin masked_std "
        "nn_functional_cosine_similarity nn_functional_max_unpool2d_grad nn_functional_max_unpool3d_grad "
        "nonzero squeeze squeeze_multiple take_along_dim tensordot unbind unique unique_consecutive "
        "unsafe_split"
    ),
    "it makes a plain tensor on the way, which DTensor refuses beside its own": (
        "__getitem__ combinations cummax cummin cumprod diagonal_scatter index_put linalg_matrix_power "
        "linalg_vander masked_cumprod masked_prod mvlgamma_mvlgamma_p_1 mvlgamma_mvlgamma_p_3 "
        "mvlgamma_mvlgamma_p_5 nn_functional_fractional_max_pool2d nn_functional_fractional_max_pool3d "
        "nn_functional_scaled_dot_product_attention pca_lowrank prod select_scatter svd_lowrank trace"
    ),
    "a view of dimensions that are cut unevenly is refused": (
        "__rmatmul__ diagflat flatten linalg_tensorsolve matmul nn_functional_instance_norm "
        "nn_functional_linear_cross_entropy nn_functional_linear_cross_entropy_chunked "
        "nn_functional_max_unpool3d nn_functional_multi_head_attention_forward ravel reshape reshape_as "
        "unflatten view view_as"
    ),
    "its kernel refuses the shards that it gets": (
        "addmv linalg_ldl_solve nn_functional_conv1d nn_functional_conv2d select"
    ),
    "DTensor looks for its placements for a quarter of a minute": "_batch_norm_with_update",
}
