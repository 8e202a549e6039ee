"""``CompiledFunctions``: random functions of views, writes and computations, compiled and in eager."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch

from harness.fuzzing.compilers import AOT, COMPILED_AUTOGRAD, DYNAMO, EXPORT, INDUCTOR
from harness.fuzzing.functions import Inputs, TensorFunction, from_json
from harness.fuzzing.hunted import Hunted, Place, Rejected
from harness.graphs.unrecorded_writes import in_words

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

#: Views of ``{0}``. Not all fit all sizes; those that do not are left out of the function.
VIEWS = (
    *("{0}.view(-1)", "{0}.t()", "{0}[0]", "{0}[1:]", "{0}[..., ::2]", "{0}.unsqueeze(0)", "{0}.squeeze(0)"),
    *("{0}.view_as({0})", "{0}.diagonal()", "{0}.expand(2, *{0}.shape)", "{0}.detach()", "{0}.mT"),
    *("{0}.reshape(-1)", "{0}.contiguous()", "{0}.narrow(0, 0, 1)", "{0}.split(1)[-1]", "{0}.chunk(2)[0]"),
    *("{0}.unbind(0)[0]", "{0}.movedim(0, -1)", "{0}.flatten()", "torch.view_as_real({0})", "{0}.real"),
    *("{0}.imag", "{0}.view(torch.int64)", "{0}.conj()", "{0}.to({0}.dtype)", "{0}[None]", "{0}.T"),
    *("torch.atleast_2d({0})", "{0}.swapaxes(0, -1)", "{0}.tensor_split(2)[0]", "{0}.select(-1, 0)"),
    *("{0}.unflatten(0, (1, -1))", "{0}.expand_as({0})", "{0}.as_strided((2,), (1,))", "{0}.alias()"),
)
#: Writes to ``{0}``, some of which read ``{1}``.
WRITES = (
    *("{0}.mul_(2)", "{0}.add_({1})", "{0}.copy_({1})", "{0}.zero_()", "{0}[0] = 7", "{0}.sin_()"),
    *("{0}.fill_(3)", "{0}[1:] = {0}[:-1].clone()", "{0}.clamp_(max=4)", "{0}.sub_({1}, alpha=2)"),
    *("torch.mul({0}, 3, out={0})", "torch._foreach_add_([{0}], 2)", "{0}.masked_fill_({0} > 3, 1)"),
    *("{0}.index_fill_(0, torch.tensor([0]), 5)", "{0}.fill_diagonal_(9)", "{0}.lerp_({1}, 0.5)"),
    *("{0}.addcmul_({1}, {1})", "{0}.index_add_(0, torch.tensor([0]), {1})", "{0}.cumsum_(0)"),
    *("{0}[{0} > 2] = 1", "{0}.view(-1).neg_()", "{0}.detach().mul_(3)", "{0}.relu_()", "{0} += {1}"),
    *("torch.nn.functional.dropout({0}, 0.0, inplace=True)", "{0}.index_put_((torch.tensor([0]),), {1})"),
)
#: In-place changes of the sizes, strides, storage or grad of ``{0}``.
METADATA = (
    *("{0}.t_()", "{0}.unsqueeze_(0)", "{0}.squeeze_(0)", "{0}.transpose_(0, -1)", "{0}.swapaxes_(0, -1)"),
    *("{0}.detach_()", "{0}.requires_grad_()", "{0}.set_({1})"),
)
#: New tensors.
COMPUTED = (
    *(
        "{0} + {1}",
        "{0} * 3",
        "{0} * {1}",
        "{0}.clone()",
        "{0}.sum()",
        "{0}.sin()",
        "{0} @ {1}",
        "{0}.mean()",
    ),
    *("torch.cat([{0}, {1}])", "torch.stack([{0}, {1}])", "torch.where({0} > 2, {0}, {1})", "{0}.sort()[0]"),
    *("{0}.cumsum(0)", "{0}.softmax(0)", "{0}.flip(0)", "{0}.roll(1)", "{0}.max()", "{0}[torch.tensor([0])]"),
    *(
        "Doubled.apply({0})",
        "checkpoint(torch.sin, {0}, use_reentrant=False)",
        "torch.func.vmap(torch.sin)({0})",
    ),
    *(
        "torch.func.grad(lambda x: x.sin().sum())({0})",
        "torch.cond({0}.sum() > 3, torch.sin, torch.cos, ({0},))",
    ),
    *(
        "torch.empty_like({0}).copy_({0})",
        "torch.zeros_like({0})",
        "{0}.new_zeros(2)",
        "{0}.to(torch.float32)",
    ),
    *("{0}.abs()", "{0}.tril()", "{0}.prod()", "{0}.std()", "torch.einsum('...i,...i->...', {0}, {1})"),
    *("{0}.repeat(2)", "{0}.sgn()", "{0}.bernoulli(0.0)", "{0}.masked_fill({0} > 2, 0)", "{0}.diff()"),
)
CONTEXTS: tuple[str, ...] = ("torch.no_grad()", "torch.enable_grad()", "torch.inference_mode()")
AUTOCAST = 'torch.autocast("cpu", torch.bfloat16)'
#: How an argument is made from a tensor, from which other arguments may be made too.
ARGUMENTS = (
    *("{0}", "{0}", "{0}", "{0}.view(-1)", "{0}[0]", "{0}[1:]", "{0}.t()", "{0}.detach()", "{0}[:, 0]"),
    *("{0}.expand(2, *{0}.shape)", "{0}[..., ::2]", "{0}.unsqueeze(0)", "{0}.clone()"),
)
SHAPES = ("(4,)", "(2, 2)", "(2, 3)", "(3,)", "(1, 3)", "()", "(0,)", "(1,)", "(2, 1, 2)", "(3, 3)")
DTYPES = (*["torch.float32"] * 6, "torch.float64", "torch.complex64", "torch.int64")
# The most statements of a function.
STATEMENTS = 6
# Functions that a seed stands for.
BATCH = 16


class CompiledFunctions(Hunted[TensorFunction]):
    """Functions through ``torch.compile``, as dynamo and AOTAutograd alone make them."""

    name = "compile"
    timeout_s = 60.0
    imports: ClassVar[tuple[str, ...]] = ("torch._dynamo", "functorch.compile", "torch._inductor.compile_fx")
    compilers: ClassVar[tuple[str, ...]] = DYNAMO
    contexts: ClassVar[tuple[str, ...]] = (*CONTEXTS, AUTOCAST)
    # Whether some functions are called again with other inputs, of which dynamo's guards have to know.
    calls_again: ClassVar[bool] = True

    def drawn(self, seed: int) -> Iterable[TensorFunction]:
        """Functions that eager can run, backwards included."""
        generator = random.Random(f"{self.name} {seed}")
        for _ in range(BATCH):
            function = _function(generator, self)
            if function.body and function.runs_in_eager():
                yield function

    def run(self, program: TensorFunction, place: Place) -> None:
        """Executes the script; what torch documents not to support is rejected."""
        try:
            super().run(program, place)
        except SystemExit as error:
            raise Rejected("torch documents that it does not support this") from error

    def script(self, program: TensorFunction) -> str:
        """The function, its inputs, and the comparison of a compiled call with eager's."""
        return program.script()

    def simpler(self, program: TensorFunction) -> Iterator[TensorFunction]:
        """Functions with a statement, output, option or view less that eager can run."""
        return (each for each in program.smaller() if each.runs_in_eager())

    def structure(self, program: TensorFunction) -> str:
        """The statements with variables by their order, outputs, arguments, their bases, the options.

        At the end stand the arguments that are written to where autograd records nothing.
        """
        text = f"{'; '.join(program.body)}; return {', '.join(program.outputs)}"
        arguments = ", ".join(program.inputs.arguments)
        leaves = f"{len(program.inputs.leaves)} leaves"
        bases = ", ".join(filter(None, map(_base, program.inputs.setup)))
        again = "" if program.again is None else f"; then {', '.join(program.again.arguments)}"
        options = ", ".join(filter(None, (program.compiler, in_words(program.unrecorded_writes()))))
        return f"{renamed(text)} | {renamed(arguments)}{again}, {leaves} | {bases} | {options}"

    def to_json(self, program: TensorFunction) -> Any:
        """As nested lists and strings."""
        return program.to_json()

    def from_json(self, value: Any) -> TensorFunction:
        """From what ``to_json`` made."""
        return from_json(value)


class InductorFunctions(CompiledFunctions):
    """Functions through ``torch.compile`` with its default backend, which rounds bfloat16 less than eager."""

    name = "inductor"
    timeout_s = 120.0
    compilers = INDUCTOR
    contexts = CONTEXTS


class AotFunctions(CompiledFunctions):
    """Functions through AOTAutograd by itself, without dynamo: an internal entry."""

    name = "aot"
    compilers = AOT
    contexts = CONTEXTS
    calls_again = False


class ExportedFunctions(CompiledFunctions):
    """Functions through ``torch.export``, strict and not, which run as the module that was exported."""

    name = "export"
    imports = ("torch._dynamo", "torch.export")
    compilers = EXPORT
    calls_again = False


class CompiledBackwards(CompiledFunctions):
    """Functions whose backward is compiled by compiled autograd, most of them with eager's forward."""

    name = "compiled-autograd"
    imports = ("torch._dynamo.compiled_autograd", "torch._dynamo")
    compilers = COMPILED_AUTOGRAD


def renamed(text: str) -> str:
    """A text whose variables ``t3``, ``y1`` are numbered by their first use, and with no other numbers."""
    names: dict[str, str] = {}

    def new(match: re.Match[str]) -> str:
        return names.setdefault(match[0], f"{match[0][0]}{len(names)}")

    return re.sub(r"\b[txy]\d+\b", new, text)


def _base(line: str) -> str:
    """The sizes, without numbers, and the dtype of what a line of the setup makes; "" for others."""
    found = re.match(r"x(\d) = .*reshape\((\(.*?\))\)\.to\(torch\.(\w+)\)", line)
    return "" if found is None else f"y{found[1]}: {re.sub(r'[0-9]+', '#', found[2])} {found[3]}"


def _function(generator: random.Random, fuzzer: CompiledFunctions) -> TensorFunction:
    """A function, one in four with other inputs for a second call where the fuzzer has some."""
    inputs = _inputs(generator, count=None)
    body, names = _body(generator, inputs, fuzzer.contexts)
    outputs = tuple(generator.choices(names, k=generator.choice((1, 1, 2, 2, 3))))
    function = TensorFunction(inputs, body, outputs, generator.choice(fuzzer.compilers))
    if fuzzer.calls_again and generator.random() < 0.25:
        again = _inputs(generator, count=len(inputs.arguments))
        other = TensorFunction(inputs, body, outputs, function.compiler, again)
        if _overlap(again) <= _overlap(inputs) and other.runs_in_eager():
            return other
    return function


def _overlap(inputs: Inputs) -> set[int]:
    """The places of arguments that have two elements in one: what a write to those does is undefined."""
    scope: dict[str, Any] = {"torch": torch}
    exec(inputs.source("inputs"), scope)
    _, arguments = scope["inputs"]()
    return {place for place, each in enumerate(arguments) if torch._debug_has_internal_overlap(each) != 0}


def _inputs(generator: random.Random, count: int | None) -> Inputs:
    """Leaves ``x0`` ..., tensors ``y0`` ... of them, and arguments: views of these that may share memory."""
    made = generator.choice((1, 1, 2))
    setup, leaves = [], []
    for index in range(made):
        shape, dtype = generator.choice(SHAPES), generator.choice(DTYPES)
        line = f"x{index} = torch.arange(1, torch.Size({shape}).numel() + 1).reshape({shape}).to({dtype})"
        if "int" not in dtype and generator.random() < 0.6:
            line += ".requires_grad_()"
            leaves.append(f"x{index}")
        setup += [line, f"y{index} = x{index} * 1"]
    scope: dict[str, Any] = {"torch": torch}
    exec("\n".join(setup), scope)
    arguments = []
    for _ in range(count or generator.choice((1, 1, 2, 2, 3))):
        base = f"y{generator.randrange(made)}"
        argument = generator.choice(ARGUMENTS).format(base)
        arguments.append(argument if _executed(argument, dict(scope)) else base)
    return Inputs(tuple(setup), tuple(leaves), tuple(arguments))


def _body(
    generator: random.Random, inputs: Inputs, contexts: Sequence[str]
) -> tuple[tuple[str, ...], list[str]]:
    """Statements that eager can run in sequence, and the names of all tensors."""
    scope: dict[str, Any] = {"torch": torch}
    exec(inputs.source("inputs") + "\n_, arguments = inputs()", scope)
    exec(
        TensorFunction(inputs, ("Doubled", "checkpoint("), ("a",), "").script().partition("\ndef f(")[0],
        scope,
    )
    names = list("abcd"[: len(inputs.arguments)])
    scope.update(zip(names, scope["arguments"], strict=True))
    lines: list[str] = []
    for _ in range(generator.randint(1, STATEMENTS)):
        line, made = _statement(generator, names, f"t{len(lines)}", scope, contexts)
        if not line or not _executed(line, scope):
            continue
        if made is not None and not isinstance(scope[made], torch.Tensor):
            continue
        lines.append(line)
        names += [made] if made is not None else []
    return tuple(lines), names


def _statement(
    generator: random.Random,
    names: Sequence[str],
    new: str,
    scope: Mapping[str, Any],
    contexts: Sequence[str],
) -> tuple[str, str | None]:
    """A line, and the name of the tensor that it makes; no line where what it does is undefined."""
    kinds = generator.choices((VIEWS, WRITES, COMPUTED, METADATA), (5, 5, 4, 1))[0]
    template = generator.choice(kinds)
    first, second = generator.choice(names), generator.choice(names)
    text = template.format(first, second)
    context = f"with {generator.choice(contexts)}: " if generator.random() < 0.15 else ""
    if kinds is VIEWS or kinds is COMPUTED:
        return f"{'' if kinds is VIEWS else context}{new} = {text}", new
    if kinds is WRITES and not _defined(scope[first], scope[second], reads="{1}" in template):
        return "", None
    return f"{'' if kinds is METADATA else context}{text}", None


def _defined(written: torch.Tensor, read: torch.Tensor, *, reads: bool) -> bool:
    """Whether a write has one result: no two elements at one place, and no other view of it is read."""
    if torch._debug_has_internal_overlap(written) != 0:
        return False
    if not reads or written.untyped_storage().data_ptr() != read.untyped_storage().data_ptr():
        return True
    return (written.shape, written.stride(), written.storage_offset()) == (
        read.shape,
        read.stride(),
        read.storage_offset(),
    )


def _executed(line: str, scope: dict[str, Any]) -> bool:
    """Whether ``line`` ran without an error of eager."""
    try:
        exec(line, scope)
    except (RuntimeError, IndexError, TypeError, ValueError, AttributeError):
        return False
    return True
