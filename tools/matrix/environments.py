"""The virtual environments of the matrix: one for each Python and torch release, kept and used again.

uv installs them, because it links what several environments have in common to one copy in its cache. torch's
builds for CUDA, which are all that PyPI has, are some 5 GB each with their libraries; so linked, 1 to 2 GB.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import HarnessError
from tools.matrix.interpreters import Interpreter

# The newest patch of each minor release that setup.py allows.
RELEASES = ("2.11.0", "2.12.1", "2.13.0")
UV = "uv==0.13.9"
# uv's own 30 s are too short for wheels of 500 MB on a slow line.
DOWNLOAD_S = 600

_IMPORT = "import torch, torch.distributed, numpy, transformers; print(torch.__version__)"


class NotMade(HarnessError):
    """An environment cannot be made; the text says why in one line."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A Python and a torch release, which an environment of the matrix has."""

    interpreter: Interpreter
    release: str

    @property
    def name(self) -> str:
        """The name of the pair's folders."""
        return f"python-{self.interpreter.version}-torch-{self.release}"

    def __str__(self) -> str:
        return f"Python {self.interpreter.version}, torch {self.release}"


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment, by its folder."""

    directory: Path

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.directory / "bin" / "python"

    @property
    def note(self) -> Path:
        """The file that says what is installed, written when all of it is and torch can be imported."""
        return self.directory / "requirements.txt"

    @property
    def installed(self) -> str | None:
        """The requirements that it was made with; None for one that is not there or not whole."""
        return self.note.read_text(encoding="utf-8") if self.note.exists() else None

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables of a process in the environment: ``environ``, and this environment in front.

        ``PYTHONPATH`` and ``PYTHONHOME`` would bring in another environment's modules.
        """
        kept = {name: value for name, value in environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        path = f"{self.directory / 'bin'}{os.pathsep}{environ.get('PATH', os.defpath)}"
        return {**kept, "VIRTUAL_ENV": str(self.directory), "PATH": path}


def requirements(pinned: str, release: str) -> str:
    """The lines of requirements.txt with another release of torch."""
    changed, count = re.subn(r"(?m)^torch==\S+$", f"torch=={release}", pinned)
    if count != 1:
        raise ValueError("requirements.txt pins torch in a line of its own: torch==RELEASE")
    return changed


def uv_variables(environ: Mapping[str, str], cache: Path) -> dict[str, str]:
    """The variables for uv: its cache beside the environments, and the folders of wheels that pip knows.

    Hard links need one file system, hence the place of the cache. Variables for uv that are set already stay.
    """
    links = ",".join(environ.get("PIP_FIND_LINKS", "").split())
    ours = {"UV_CACHE_DIR": str(cache / "uv"), "UV_HTTP_TIMEOUT": str(DOWNLOAD_S), "UV_FIND_LINKS": links}
    without_environment = {name: value for name, value in environ.items() if name != "VIRTUAL_ENV"}
    return {**{name: value for name, value in ours.items() if value}, **without_environment}


def make(pair: Pair, pinned: str, cache: Path) -> Environment:
    """Makes the environment of a pair; one that is there with the same requirements is used as it is.

    ``pinned`` is the text of requirements.txt. Raises NotMade.
    """
    environment = Environment(cache / "environments" / pair.name)
    wanted = requirements(pinned, pair.release)
    if environment.installed != wanted:
        _install(environment, pair.interpreter, wanted, cache)
    return environment


def _install(environment: Environment, interpreter: Interpreter, wanted: str, cache: Path) -> None:
    uv = _uv(cache)
    variables = uv_variables(os.environ, cache)
    _run([uv, "venv", "--clear", "--python", interpreter.path, str(environment.directory)], variables)
    # Bytecode is made here: spawned ranks write none, and each would compile torch's thousand modules anew.
    install = [uv, "pip", "install", "--compile-bytecode", "--python", str(environment.python), "-r", "-"]
    _run(install, variables, wanted)
    _run([str(environment.python), "-c", _IMPORT], environment.variables(os.environ))
    environment.note.write_text(wanted, encoding="utf-8")


def _uv(cache: Path) -> str:
    """The path of uv: what is on ``PATH``, or one in an environment of its own in the cache."""
    found = shutil.which("uv")
    if found is not None:
        return found
    own = cache / "uv-program"
    if not (own / "bin" / "uv").exists():
        _run([sys.executable, "-m", "venv", "--clear", str(own)], os.environ)
        _run([str(own / "bin" / "pip"), "install", "-q", UV], os.environ)
    return str(own / "bin" / "uv")


def _run(command: list[str], variables: Mapping[str, str], text: str = "") -> None:
    done = subprocess.run(
        command,
        env=variables,
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NotMade(reason(done.stdout) or f"{command[0]} ended with exit code {done.returncode}")


def reason(output: str) -> str:
    """Why a command failed, in a line: what it says of its error, or its last line."""
    lines = [" ".join(line.split()) for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(error|\w*Error)\b", line)]
    return (errors or lines or [""])[-1]
