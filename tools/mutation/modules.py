"""Which of torch's modules are mutated: those that the suites are about."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from harness.errors import UsageError

# Files and directories below the directory that has torch; a directory stands for every module in it.
MUTATED = (
    "torch/distributed/distributed_c10d.py",
    "torch/distributed/_functional_collectives.py",
    "torch/distributed/_functional_collectives_impl.py",
    "torch/distributed/rendezvous.py",
    "torch/distributed/device_mesh.py",
    "torch/distributed/utils.py",
    "torch/distributed/nn/functional.py",
    "torch/distributed/algorithms",
    "torch/distributed/fsdp",
    "torch/distributed/tensor",
    "torch/nn/modules/_functions.py",
    "torch/nn/parallel/distributed.py",
    "torch/_functorch/_aot_autograd",
    "torch/_functorch/aot_autograd.py",
    "torch/_functorch/partitioners.py",
    "torch/_dynamo/backends/distributed.py",
    "torch/_dynamo/variables/distributed.py",
    "torch/_dynamo/compiled_autograd.py",
)
# Below those: what no suite is about, and files that define nothing but types or examples.
LEFT_OUT = (
    "torch/distributed/tensor/examples",
    "torch/distributed/tensor/experimental",
    "torch/distributed/tensor/debug",
    # A developer's check of sharding rules: no module of torch imports it.
    "torch/distributed/tensor/_ops/strategy_validation.py",
    "torch/distributed/algorithms/_quantization",
    "torch/distributed/algorithms/_optimizer_overlap",
    "torch/distributed/fsdp/_fully_shard/_fsdp_api.py",
    "torch/_functorch/_aot_autograd/fx_utils.py",
    "torch/_functorch/_aot_autograd/logging_utils.py",
)


def root() -> Path:
    """The directory that has torch, found without importing it. UsageError where there is none."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        raise UsageError("torch is not installed here, and its source is what is mutated")
    return Path(spec.origin).parents[1]


def files(patterns: tuple[str, ...] = ()) -> list[str]:
    """The files that are mutated, relative to ``root()``, sorted; with ``patterns`` those that contain one.

    UsageError for a pattern that no file contains.
    """
    found = sorted(name for name in _all() if not name.startswith(LEFT_OUT))
    for pattern in patterns:
        if not any(pattern in name for name in found):
            raise UsageError(f"no mutated file has {pattern!r} in its name; they are {', '.join(MUTATED)}")
    return [name for name in found if not patterns or any(pattern in name for pattern in patterns)]


def _all() -> Iterator[str]:
    top = root()
    for name in MUTATED:
        path = top / name
        if path.suffix == ".py":
            if path.exists():  # a release of torch may lack one
                yield name
        else:
            yield from (file.relative_to(top).as_posix() for file in path.rglob("*.py"))


def group(file: str) -> str:
    """The entry of ``MUTATED`` that a mutated file is or is in; another file is its own group."""
    return next((name for name in MUTATED if file == name or file.startswith(f"{name}/")), file)
