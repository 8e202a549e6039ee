"""Comparing tensors that are made of tensors."""

from __future__ import annotations

from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from suites.aot.refusals import RefusalTestCase


def parts(tensor):
    """The tensors that a wrapper subclass holds, one level down and in order; none of a plain tensor."""
    if not is_traceable_wrapper_subclass(tensor):
        return []
    names, _ = tensor.__tensor_flatten__()
    return [getattr(tensor, name) for name in names]


def plain_parts(tensor):
    """The plain tensors in a tensor, however deep; the tensor itself if it is plain."""
    inner = parts(tensor)
    return [plain for part in inner for plain in plain_parts(part)] if inner else [tensor]


def kind(tensor):
    """The type of a tensor, what its type knows besides tensors, and the same of all in it."""
    if not is_traceable_wrapper_subclass(tensor):
        return type(tensor)
    _, context = tensor.__tensor_flatten__()
    return type(tensor), context, [kind(part) for part in parts(tensor)]


class SubclassTestCase(RefusalTestCase):
    """A test with wrapper subclasses."""

    def same_tensors(self, found, expected):
        """Two sequences of equal tensors: in their types at every depth, in values and strides."""
        for one, other in zip(found, expected, strict=True):
            self.assertEqual(kind(one), kind(other))
            self.assertEqual(
                [each.detach() for each in plain_parts(one)],
                [each.detach() for each in plain_parts(other)],
                exact_stride=True,
            )
