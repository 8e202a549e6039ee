"""Which modules policies choose, how they are wrapped, and what is warned of: as ``wrappings.txt`` has it.

Each section of that file has as its name what is called. One process, and a wrapper that only notes its
options. A section that is not as torch has it is shown as it would have to be.
"""

from __future__ import annotations

import re
import sys
import warnings
from functools import partial
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointWrapper,
    apply_activation_checkpointing,
)
from torch.distributed.fsdp import MixedPrecision, _wrap_utils
from torch.distributed.fsdp import wrap as wrapping
from torch.distributed.fsdp.wrap import (
    CustomPolicy,
    ModuleWrapPolicy,
    always_wrap_policy,
    enable_wrap,
    lambda_auto_wrap_policy,
    size_based_auto_wrap_policy,
    transformer_auto_wrap_policy,
    wrap,
)

from harness import TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.accepted_sections import check_sections

ACCEPTED = Path(__file__).with_name("wrappings.txt")
REFUSALS = (ValueError, AssertionError, NotImplementedError, TypeError, RuntimeError)


class Noted(nn.Module):
    """A wrapper that keeps what it was given."""

    def __init__(self, module, **options):
        super().__init__()
        self.module = module
        self.options = options


def noted(module, **options):
    """The same as a function, which is no class that children could be of."""
    return Noted(module, **options)


class Block(nn.Module):
    """36 numbers in two layers and a norm."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 4)
        self.norm = nn.BatchNorm1d(4)
        self.last = nn.Linear(4, 2, bias=False)
        self.free = nn.Parameter(self.last.weight.detach().clone())


class Tree(nn.Module):
    """Modules of several sizes and kinds, one of which stands in two places, and a frozen one."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(3, 2)
        self.block = Block()
        self.again = self.stem
        self.rows = nn.ModuleList([nn.Linear(1, 1), Block()])
        self.attention = nn.MultiheadAttention(2, 1)
        self.frozen = nn.Linear(2, 2).requires_grad_(False)
        self.last = nn.Parameter(self.stem.weight.detach().clone())


def half_frozen():
    """A tree in which one block has parameters that are frozen and some that are not."""
    tree = Tree()
    tree.block.norm.requires_grad_(False)
    tree.block.free.requires_grad_(False)
    tree.rows[1].last.requires_grad_(False)
    return tree


def overriding():
    """A tree with a module that says itself how it wants to be wrapped."""
    tree = Tree()
    tree.stem._wrap_overrides = {"own": 1}
    return tree


def recursively(policy, tree=None, *, ignored=(), cls=noted, **how):
    """Wrap a tree from its leaves on, and name what came of it."""
    tree = Tree() if tree is None else tree
    modules = {tree.get_submodule(name) for name in ignored}
    parameters = {each for module in modules for each in module.parameters()}
    found, count = wrapping._recursive_wrap(tree, policy, cls, modules, parameters, **how)
    return [*described(found), f"{count} numbers"]


def chosen(policy, *ignored, **options):
    """What a policy chooses of a tree, and whether it gives each module options of its own."""
    tree = Tree()
    found = policy._run_policy(tree, {tree.get_submodule(name) for name in ignored}, options)
    names = {module: name for name, module in tree.named_modules()}
    return [f"{names[module]!r} {given} {given is options}" for module, given in found.items()]


def automatically(policy, tree=None, ignored=(), fn=Noted, **options):
    """Wrap as FSDP does, and name what came of it."""
    tree = Tree() if tree is None else tree
    modules = {tree.get_submodule(name) for name in ignored}
    parameters = {each for module in modules for each in module.parameters()}
    _wrap_utils._auto_wrap(tree, policy, modules, parameters, {"mixed_precision": None, **options}, fn)
    hooked = [name for name, each in tree.named_modules() if each._forward_pre_hooks]
    return [*described(tree), *(["casting: " + " ".join(hooked)] if hooked else [])]


def checkpointed(tree=None, **how):
    """Wrap what is to be computed again, and name what came of it."""
    tree = Tree() if tree is None else tree
    returned = apply_activation_checkpointing(tree, **how)
    return [*described(tree), f"returns {returned}"]


def annotated(*, inside=True, **options):
    """What an annotated module becomes, inside and behind a region."""
    tree = overriding()
    if not inside:
        return described(wrap(tree.stem, **options))
    with enable_wrap(wrapper_cls=Noted, outer=2, both=3):
        found = [described(wrap(each, **options)) for each in (tree.stem, tree.frozen)]
    return [*found[0], *found[1], *described(wrap(tree.stem))]


def regions():
    """A region in a region is refused, and so is one without a wrapper; what was left is as before."""
    words = []
    for again in (noted, None):
        try:
            with enable_wrap(wrapper_cls=noted, one=1):
                if again is None:
                    raise ValueError("left")
                with enable_wrap(wrapper_cls=noted):
                    words.append("entered")
        except (NotImplementedError, ValueError) as error:
            words.append(f"{type(error).__name__}: {error}")
        words += described(wrap(nn.Linear(1, 1), two=2))
    try:
        with wrapping._ConfigAutoWrap():
            words.append("entered")
    except AssertionError as error:
        words.append(f"{error}")
    wrapping._ConfigAutoWrap.disable_autowrap_context()
    return words


def frozen(names, *, tree=None, ignored=(), original=True):
    """What is said of modules of which parts are frozen."""
    tree = half_frozen() if tree is None else tree
    parameters = {each for name in ignored for each in tree.get_submodule(name).parameters()}
    modules = {tree.get_submodule(name) for name in names}
    return [f"{_wrap_utils._validate_frozen_params(tree, modules, parameters, original)}"]


def managed(*names, ignored=()):
    """Which parameters each of some modules has, where the ones before have theirs."""
    tree, visited = Tree(), set()
    parameters = {each for name in ignored for each in tree.get_submodule(name).parameters()}
    of = _wrap_utils._get_managed_param_to_fqn
    found = {name: of(tree.get_submodule(name), parameters, visited, name) for name in names}
    return [f"{name!r} {list(each.values())}" for name, each in found.items()]


def children_last():
    """The modules of a tree in the order in which they are wrapped."""
    return [name for name, _ in _wrap_utils._get_post_order_named_modules(Tree())]


def described(root):
    """Each wrapped module by name, with its options, and each module that is in two places."""
    seen = {}
    for name, module in root.named_modules(remove_duplicate=False):
        if isinstance(module, Noted | CheckpointWrapper):
            seen.setdefault(module, []).append(name)
    words = []
    for module, names in seen.items():
        kind = getattr(module, "module", None) or module._checkpoint_wrapped_module
        options = getattr(module, "options", None)
        words.append(f"{' and '.join(map(repr, names))} {type(kind).__name__} {words_of(options)}")
    return words or [f"no module of {type(root).__name__} is wrapped"]


def words_of(options):
    """The options of a wrapper, those of mixed precision by which classes they leave out."""
    if options is None:
        return "checkpointed"
    return " ".join(
        f"{name}={sorted(each.__name__ for each in value._module_classes_to_ignore)}"
        if isinstance(value, MixedPrecision)
        else f"{name}={value}"
        for name, value in options.items()
    )


#: What the names of sections may name.
NAMES = {
    "nn": nn,
    "partial": partial,
    "wrapping": wrapping,
    **{
        each.__name__: each
        for each in (
            *(Noted, noted, Block, Tree, half_frozen, overriding, MixedPrecision),
            *(recursively, chosen, automatically, checkpointed, annotated, regions, frozen, managed),
            *(children_last, always_wrap_policy, lambda_auto_wrap_policy, size_based_auto_wrap_policy),
            *(transformer_auto_wrap_policy, CustomPolicy, ModuleWrapPolicy),
        )
    },
}


def answer(expression):
    """What an expression gives, or how it is refused, and what it warns of."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = eval(expression, NAMES)
            found = [repr(found)] if isinstance(found, str) else [f"{each}" for each in found]
        except REFUSALS as error:
            found = [f"{type(error).__name__}: {line}" for line in str(error).splitlines()[:1]]
    for line in (line for each in warned for line in str(each.message).splitlines()):
        classes = re.findall(r"<class '(.*?)'>", line)  # a set, which has no order
        found.append(f"warns: {' '.join(sorted(classes)) or line}")
    return found


class WrappingTest(TestCase):
    """All sections of the file."""

    def test_ways(self):
        check_sections(self, ACCEPTED, answer)


if __name__ == "__main__":
    run_tests()
