"""``MainModule``: runs a file or a module as this process's ``__main__``, as ``python`` and ``python -m`` do.

``runpy`` would do so under a module that exists only meanwhile; a script's threads, exit functions and the
objects that it pickles need one that stays.
"""

from __future__ import annotations

import importlib.util
import io
import os
import sys
import types
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader


@dataclass(frozen=True, slots=True)
class MainModule:
    """The code of a script, and the attributes of the module in which it runs."""

    code: types.CodeType
    attributes: dict[str, object]

    def run(self) -> None:
        """Makes the module this process's ``__main__`` and runs it; what it raises propagates."""
        module = types.ModuleType("__main__")
        module.__dict__.update(self.attributes, __builtins__=__builtins__)
        sys.modules["__main__"] = module
        exec(self.code, module.__dict__)


def of_file(path: str) -> MainModule:
    """The script of a file; SyntaxError or OSError where it cannot be read."""
    file = os.path.abspath(path)
    with io.open_code(file) as stream:
        code = compile(stream.read(), file, "exec", dont_inherit=True)
    loader = SourceFileLoader("__main__", file)
    return MainModule(code, {"__file__": file, "__loader__": loader, "__cached__": None})


def of_name(name: str) -> MainModule:
    """The script that a module is, or the ``__main__`` of a package; imports the packages that it is in.

    ``sys.argv[0]`` becomes the module's file. ImportError where there is nothing to run.
    """
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    code = _code(spec) if spec is not None else None
    if spec is None or code is None:
        raise ImportError(f"there is no code of a module {name!r} to run")
    sys.argv[0] = str(spec.origin)
    return MainModule(
        code,
        {
            "__file__": spec.origin,
            "__loader__": spec.loader,
            "__cached__": spec.cached,
            "__package__": spec.parent,
            "__spec__": spec,
        },
    )


def _code(spec: ModuleSpec) -> types.CodeType | None:
    get_code = getattr(spec.loader, "get_code", None)
    code: types.CodeType | None = get_code(spec.name) if get_code is not None else None
    return code
