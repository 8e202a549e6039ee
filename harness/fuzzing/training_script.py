"""Makes scripts in plain torch of programs that train: the text of their modules, values, and ranks."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
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


def script(modules: Sequence[ModuleType], source: str, values: Iterable[str], call: str) -> str:
    """A script whose ranks, ``rank`` of ``WORLD``, make a call on the model of ``source``.

    The call is of the last of ``modules``, each of which may import what those before it define.
    """
    texts = [_text(each) for each in (training, *modules)]
    return "\n\n".join((_FUTURE, *texts, source, "\n".join(values), _MAIN.replace("CALL", call)))


def _text(module: ModuleType) -> str:
    """A module's text without its docstring and what it imports of this project."""
    text = inspect.getsource(module).partition(_FUTURE)[2].strip()
    return re.sub(r"(?m)^from harness\.\S+ import (\([^)]*\)|[^(\n]*)\n", "", text)
