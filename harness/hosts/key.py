"""The key of a run, by which its hosts know each other: from the environment, or from a file of mode 0600."""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Mapping

from harness.errors import UsageError
from harness.settings import EnvVar

# Characters. A key that somebody can guess is none: whoever records a handshake can try keys at leisure.
LEAST_LENGTH = 32
# Seconds between two looks for a file that another host is about to make.
_LOOK_S = 0.1


def new_key() -> str:
    """A key that nobody can guess."""
    return secrets.token_hex(32)


def checked(key: str, where: str) -> bytes:
    """The key of a text; UsageError where it is too short. ``where`` says where it is from."""
    text = key.strip()
    if len(text) < LEAST_LENGTH:
        raise UsageError(
            f"{where} has a key of {len(text)} characters: make one of {LEAST_LENGTH} or more, "
            "with python -m harness.agent --new-key"
        )
    return text.encode()


def from_file(path: str) -> bytes:
    """The key in a file; UsageError where others than its owner can read it, or it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            text = file.read(4096)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the key file {path} cannot be read: {error}") from None
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise UsageError(f"the key file {path} is open to others: chmod 600 {path}, as its owner")
    return checked(text, path)


def make_file(path: str, key: str | None = None) -> bytes:
    """Writes a key, by default a new one, to a file of mode 0600, and returns it; UsageError on failure."""
    text = new_key() if key is None else key
    beside = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(beside, path)  # so that nobody reads half of it
    except OSError as error:
        raise UsageError(f"the key file {path} cannot be written: {error.strerror}") from None
    return checked(text, path)


def given(environ: Mapping[str, str]) -> bytes | None:
    """The key that ``HARNESS_KEY`` or ``HARNESS_KEY_FILE`` gives, None where neither is set."""
    if environ.get(EnvVar.KEY):
        return checked(environ[EnvVar.KEY], EnvVar.KEY)
    if environ.get(EnvVar.KEY_FILE):
        return from_file(environ[EnvVar.KEY_FILE])
    return None


def awaited(environ: Mapping[str, str], path: str, seconds: float) -> bytes:
    """The key that is given, else that of a file that the controller makes within ``seconds``.

    UsageError where there is none.
    """
    until = time.monotonic() + seconds
    while (key := given(environ)) is None:
        if os.path.exists(path):
            return from_file(path)
        if time.monotonic() > until:
            raise UsageError(
                f"no key: set {EnvVar.KEY} on every host, or have all of them share the directory of {path}"
            )
        time.sleep(_LOOK_S)
    return key
