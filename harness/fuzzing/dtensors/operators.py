"""The operators of random DTensor programs, as expressions over operands.

A template that the operands of a draw do not fit is not drawn, so an expression may suit some shapes only.
None has a result that depends on rounding or on the order of equal elements.
"""

from __future__ import annotations

#: Element by element.
POINTWISE = (
    "{0} + {1}",
    "{0} - {1}",
    "{0} * {1}",
    "{0} / 4",
    "{0} + 1",
    "2 - {0}",
    "-{0}",
    "torch.relu({0})",
    "torch.sin({0})",
    "torch.abs({0})",
    "torch.sigmoid({0})",
    "torch.clamp({0}, -1, 1)",
    "torch.maximum({0}, {1})",
    "torch.where({0} > 0.3, {0}, {1})",
    "torch.addcmul({0}, {1}, {0})",
    "torch.lerp({0}, {1}, 0.25)",
    "{0}.masked_fill({0} > 0.3, 2.0)",
    "{0}.float()",
    "torch.nn.functional.gelu({0})",
    "torch.pow({0}, 2)",
)
#: Over some or all dimensions.
REDUCTIONS = (
    "{0}.sum()",
    "{0}.sum(0)",
    "{0}.sum(-1, keepdim=True)",
    "{0}.mean()",
    "{0}.mean(0)",
    "{0}.mean(-1, keepdim=True)",
    "{0}.amax(0)",
    "{0}.amin(-1)",
    "{0}.max(-1)[0]",
    "{0}.max()",
    "{0}.prod(0)",
    "{0}.var(0)",
    "{0}.std(-1, correction=0)",
    "{0}.norm()",
    "torch.linalg.vector_norm({0}, dim=0)",
    "torch.linalg.vector_norm({0}, ord=float('inf'))",
    "torch.logsumexp({0}, -1)",
    "({0} > 0.3).any(0)",
    "({0} > 0.3).all()",
    "torch.count_nonzero({0})",
    "torch.cumsum({0}, 0)",
    "torch.cumsum({0}, -1)",
    "torch.topk({0}, 2)[0]",
    "torch.sort({0}, 0)[0]",
)
#: Products, normalisations and losses.
MATRICES = (
    "{0} @ {1}",
    "{0} @ {1}.t()",
    "torch.addmm({0}, {1}, {2})",
    "torch.bmm({0}, {1})",
    "torch.nn.functional.linear({0}, {1})",
    "torch.nn.functional.linear({0}, {1}, {2})",
    "torch.softmax({0}, 0)",
    "torch.softmax({0}, -1)",
    "torch.log_softmax({0}, -1)",
    "torch.nn.functional.layer_norm({0}, {0}.shape[-1:])",
    "torch.nn.functional.mse_loss({0}, {1})",
    "torch.nn.functional.embedding({1}, {0})",
    "torch.outer({0}, {1})",
    "torch.dot({0}, {1})",
)
#: Views, and what moves elements.
SHAPES = (
    "{0}.t()",
    "{0}.transpose(0, -1)",
    "{0}.permute(2, 0, 1)",
    "{0}.flatten()",
    "{0}.flatten(0, 1)",
    "{0}.reshape(-1)",
    "{0}.reshape(2, -1)",
    "{0}.reshape(-1, 2)",
    "{0}.view(-1)",
    "{0}.unflatten(0, (2, -1))",
    "{0}.unflatten(-1, (-1, 2))",
    "{0}.unsqueeze(0)",
    "{0}.unsqueeze(-1)",
    "{0}.squeeze()",
    "{0}.squeeze(0)",
    "{0}.expand(3, *{0}.shape)",
    "{0}.repeat(2, *[1] * ({0}.dim() - 1))",
    "{0}.select(0, 1)",
    "{0}[0]",
    "{0}[-1]",
    "{0}[1:]",
    "{0}[:, 1:]",
    "{0}[::2]",
    "{0}[..., :2]",
    "{0}.narrow(0, 1, 2)",
    "{0}.chunk(2)[1]",
    "{0}.split(2, -1)[0]",
    "{0}.unbind(0)[1]",
    "torch.cat([{0}, {1}])",
    "torch.cat([{0}, {1}], -1)",
    "torch.stack([{0}, {1}])",
    "torch.flip({0}, (0,))",
    "torch.roll({0}, 1, 0)",
    "torch.tril({0})",
    "torch.nn.functional.pad({0}, (1, 2))",
    "{0}.diagonal()",
    "{0}.contiguous()",
    "{0}.clone()",
    "{0}.detach()",
    "torch.zeros_like({0})",
    "torch.index_select({0}, 0, {1})",
    "torch.gather({0}, 0, {1})",
    "{0}[{1}]",
    "{0}.unfold(0, 2, 1)",
    "{0}.movedim(0, -1)",
)
#: Writes to the first operand.
IN_PLACE = (
    "{0}.add_({1})",
    "{0}.mul_(2)",
    "{0}.copy_({1})",
    "{0}.zero_()",
    "{0}.fill_(3)",
    "{0}.clamp_(-1, 1)",
    "{0}.masked_fill_({0} > 0.3, 2.0)",
    "{0}.addcmul_({1}, {1})",
    "{0}.t_()",
    "{0}.unsqueeze_(0)",
    "{0}.squeeze_()",
    "torch.add({1}, 1, out={0})",
    "torch._foreach_add_([{0}, {1}], 1)[0]",
)
#: Lists of tensors at once.
FOREACH = (
    "torch._foreach_add([{0}, {1}], 1)[0]",
    "torch._foreach_mul([{0}, {1}], [{1}, {0}])[1]",
    "torch._foreach_norm([{0}, {1}])[0]",
    "torch._foreach_lerp([{0}], [{1}], 0.5)[0]",
)
ALL = (*POINTWISE, *REDUCTIONS, *MATRICES, *SHAPES, *IN_PLACE, *FOREACH)


def written_count(template: str) -> int:
    """How many operands a template writes to: none, or the first ones."""
    if template not in IN_PLACE:
        return 0
    return operand_count(template) if template.startswith("torch._foreach") else 1


def operand_count(template: str) -> int:
    """How many operands a template has."""
    return max(int(index) for index in "012" if f"{{{index}}}" in template) + 1
