"""Makes scripts in plain torch of programs that train: the text of their modules, values, and ranks."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from types import ModuleType

from harness.fuzzing import training

_MAIN = """\
def main(rank, path):
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.FileStore(path, WORLD), rank=rank, world_size=WORLD
    )
    CALL
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    import tempfile

    import torch.multiprocessing

    with tempfile.NamedTemporaryFile() as file:
        torch.multiprocessing.start_processes(main, (file.name,), nprocs=WORLD, start_method="fork")
"""
_FUTURE = "from __future__ import annotations"


def script(module: ModuleType, source: str, values: Iterable[str], call: str) -> str:
    """A script whose ranks, ``rank`` of ``WORLD``, make a call of ``module`` on the model of ``source``."""
    parts = (_FUTURE, _text(training), _text(module), source, "\n".join(values), _MAIN.replace("CALL", call))
    return "\n\n".join(parts)


def _text(module: ModuleType) -> str:
    """A module's text without its docstring and what it imports of this project."""
    text = inspect.getsource(module).partition(_FUTURE)[2].strip()
    return re.sub(r"(?m)^from harness\.\S+ import (\([^)]*\)|[^(\n]*)\n", "", text)
