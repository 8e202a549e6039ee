"""What random modules are made of: blocks that change ``h``, the hidden values, of shape (batch, 4).

In the lines of a block ``{n}`` is its number and ``{m}`` that of the first block of the same kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Block:
    """The lines of a block in ``__init__`` and ``forward``.

    ``unused``: whether a parameter has no part in some losses; ``varies``: whether that differs by rank.
    """

    init: tuple[str, ...]
    forward: tuple[str, ...]
    unused: bool = False
    varies: bool = False


def _linear(name: str = "linear{n}") -> str:
    return f"self.{name} = nn.Linear(4, 4, dtype=torch.float64)"


_VALUES = "torch.arange(1.0, 17.0, dtype=torch.float64).reshape(4, 4) / 16"

BLOCKS: dict[str, Block] = {
    "linear": Block((_linear(),), ("h = torch.tanh(self.linear{n}(h))",)),
    "shared": Block(
        ("self.shared{n} = self.shared{m} if {n} != {m} else nn.Linear(4, 4, dtype=torch.float64)",),
        ("h = self.shared{n}(h)",),
    ),
    "twice": Block((_linear("twice{n}"),), ("h = self.twice{n}(torch.tanh(self.twice{n}(h)))",)),
    "tied": Block(
        (_linear("tied{n}"), "self.tied{n}.weight = self.tied{m}.weight"),
        ("h = torch.tanh(self.tied{n}(h))",),
    ),
    "odd": Block(
        ("self.odd{n} = nn.Linear(4, 5, dtype=torch.float64)",), ("h = torch.tanh(self.odd{n}(h))[:, 1:]",)
    ),
    "tiny": Block(
        ("self.tiny{n} = nn.Parameter(torch.tensor([1.5], dtype=torch.float64))",),
        ("h = h * self.tiny{n}",),
    ),
    "frozen": Block(
        (_linear("frozen{n}"), "self.frozen{n}.weight.requires_grad_(False)"), ("h = self.frozen{n}(h)",)
    ),
    "scalar": Block(
        ("self.scalar{n} = nn.Parameter(torch.tensor(1.5, dtype=torch.float64))",),
        ("h = h * self.scalar{n}",),
    ),
    "empty": Block(
        ("self.empty{n} = nn.Parameter(torch.empty(0, 3, dtype=torch.float64))",),
        ("h = h + self.empty{n}.sum()",),
    ),
    "transposed": Block(
        (f"self.transposed{{n}} = nn.Parameter(({_VALUES}).t())",),
        ("h = h @ self.transposed{n}",),
    ),
    "float32": Block(
        ("self.single{n} = nn.Linear(4, 4, dtype=torch.float32)",),
        ("h = self.single{n}(h.float()).double()",),
    ),
    "complex": Block(
        ("self.complex{n} = nn.Parameter(torch.tensor([1 + 2j, 1j, 0.5, 1], dtype=torch.complex128))",),
        ("h = (h * self.complex{n}).abs()",),
    ),
    "sparse": Block(
        ("self.sparse{n} = nn.Embedding(3, 4, sparse=True, dtype=torch.float64)",),
        # Times 2, because DDP divides a sparse gradient in memory that it may share with h's gradient (2.13).
        ("h = h + self.sparse{n}((x[:, 0] > 0).long()) * 2",),
    ),
    "embedding": Block(
        ("self.embedding{n} = nn.Embedding(3, 4, dtype=torch.float64)",),
        ("h = h + self.embedding{n}((x[:, 0] > 0).long())",),
    ),
    "buffer": Block(
        ("self.register_buffer('buffer{n}', torch.zeros(4, dtype=torch.float64))",),
        ("h = h + self.buffer{n}", "self.buffer{n}.add_(h.detach().mean(0))"),
    ),
    "norm": Block(
        ("self.norm{n} = nn.BatchNorm1d(4, dtype=torch.float64)",),
        ("h = self.norm{n}(h)",),
    ),
    "checkpoint": Block(
        (_linear("checkpoint{n}"),),
        ("h = torch.utils.checkpoint.checkpoint(self.checkpoint{n}, h, use_reentrant=False)",),
    ),
    "hooked": Block(
        (_linear("hooked{n}"), "self.hooked{n}.weight.register_hook(lambda grad: grad * 2)"),
        ("h = self.hooked{n}(h)",),
    ),
    "unused": Block((_linear("unused{n}"),), (), unused=True),
    "detached": Block((_linear("detached{n}"),), ("h = h + self.detached{n}(h).detach()",), unused=True),
    "output": Block((_linear("output{n}"),), ("ignored.append(self.output{n}(h))",), unused=True),
    "branch": Block(
        (_linear("left{n}"), _linear("right{n}")),
        ("h = self.left{n}(h) if x.sum() > 0 else self.right{n}(h)",),
        unused=True,
        varies=True,
    ),
    "sometimes": Block(
        (_linear("sometimes{n}"),),
        ("h = self.sometimes{n}(h) if x[0, 0] > 0 else h",),
        unused=True,
        varies=True,
    ),
}


def model_source(blocks: Sequence[str], inner: int | None = None) -> str:
    """The class ``Model`` of blocks, whose ``forward`` returns what the loss is made of, and what is ignored.

    The blocks from number ``inner`` on are in a module within, ``inner`` of class ``Inner``.
    """
    numbered = list(enumerate(blocks))
    if inner is None:
        return _class("Model", numbered, "x", "h, ignored = self.first(x), []", _FIRST)
    own = _class("Inner", numbered[inner:], "x, h", "ignored = []")
    then = ("h, more = self.inner(x, h)", "ignored += more")
    init = (*_FIRST, "self.inner = Inner()")
    return f"{own}\n\n" + _class("Model", numbered[:inner], "x", "h, ignored = self.first(x), []", init, then)


_FIRST = (_linear("first"),)


def _class(
    name: str,
    blocks: Sequence[tuple[int, str]],
    inputs: str,
    begins: str,
    before: Sequence[str] = (),
    then: Sequence[str] = (),
) -> str:
    first: dict[str, int] = {}
    init, forward = [*before], [begins]
    for number, block in blocks:
        numbers = {"n": number, "m": first.setdefault(block, number)}
        init += [line.format(**numbers) for line in BLOCKS[block].init]
        forward += [line.format(**numbers) for line in BLOCKS[block].forward]
    return "\n".join(
        (
            f"class {name}(nn.Module):",
            "    def __init__(self):",
            "        super().__init__()",
            *(f"        {line}" for line in init),
            "",
            f"    def forward(self, {inputs}):",
            *(f"        {line}" for line in (*forward, *then)),
            "        return h, ignored",
            "",
        )
    )
