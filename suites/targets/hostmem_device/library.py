"""Compiles the C++ of ``hostmem``, once for these sources and this torch, and loads it."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import torch

_HERE = Path(__file__).parent
SOURCES = tuple(sorted(_HERE.glob("*.cpp")))
# What cpp_extension needs of the machine.
_TOOLS = ("g++", "ninja")


def missing() -> tuple[str, ...]:
    """The tools to compile with that this machine lacks; none where it is compiled already."""
    return () if path().exists() else tuple(tool for tool in _TOOLS if shutil.which(tool) is None)


def load() -> None:
    """Loads the library into this process; compiles it first, for half a minute, if that has not been done.

    ImportError, in one line, where the machine has no compiler.
    """
    lacking = missing()
    if lacking:
        raise ImportError(f"hostmem has to be compiled, and there is no {' and no '.join(lacking)} here")
    if not path().exists():
        _compile(path())
    torch.ops.load_library(str(path()))


def path() -> Path:
    """Where the library is, or will be once it is compiled: in the cache of torch's extensions."""
    root = os.environ.get("TORCH_EXTENSIONS_DIR") or Path.home() / ".cache" / "torch_extensions"
    return Path(root, f"hostmem-{_digest()}.so")


def _digest() -> str:
    found = hashlib.sha256(torch.__version__.encode())
    for source in (*SOURCES, _HERE / "devices.h"):
        found.update(source.read_bytes())
    return found.hexdigest()[:16]


def _compile(place: Path) -> None:
    from torch.utils import cpp_extension

    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix="hostmem-") as directory:
        made = cpp_extension.load(
            "hostmem",
            [str(source) for source in SOURCES],
            extra_cflags=["-O1"],
            build_directory=directory,
            with_cuda=False,
            is_python_module=False,
            is_standalone=False,
        )
        os.replace(made, place)  # whoever compiles it at the same time has a whole one, too
