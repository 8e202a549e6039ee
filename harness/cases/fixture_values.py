"""Encodes the values of pytest's fixtures for ranks, and says what to do about one that cannot cross."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping
from typing import Any

from harness.errors import UsageError

_PRINTED = "contextlib.redirect_stdout(io.StringIO()) in the test has what this rank prints"
# What to do in ranks in place of pytest's own fixtures that act on, or tell of, pytest's process.
_INSTEAD = {
    "capsys": _PRINTED,
    "capfd": _PRINTED,
    "capsysbinary": _PRINTED,
    "capfdbinary": _PRINTED,
    "capteesys": _PRINTED,
    "caplog": "a logging.Handler that the test adds to the logger has what this rank logs",
    "recwarn": "warnings.catch_warnings(record=True) or pytest.warns in the test has what this rank warns",
    "request": "a fixture that returns what the test needs of it (request.param, request.node.name) crosses",
    "pytestconfig": "a fixture that returns what the test needs of it (pytestconfig.getoption(...)) crosses",
}


def encoded(values: Mapping[str, Any], *, partly: bool = False) -> str:
    """The values of fixtures as text for ranks; UsageError for one that cannot be pickled, by its name.

    ``partly``: such a value is left out instead.
    """
    pickled: dict[str, bytes] = {}
    for name, value in values.items():
        try:
            pickled[name] = pickle.dumps(value)
        except Exception as error:  # noqa: BLE001 - pickling runs code of the value
            if partly:
                continue
            raise UsageError(_refusal(name, value, error)) from None
    return base64.b64encode(pickle.dumps(pickled)).decode()


def _refusal(name: str, value: Any, error: Exception) -> str:
    if name in _INSTEAD and type(value).__module__.partition(".")[0] == "_pytest":
        return f"ranks cannot have pytest's {name!r}, which acts in pytest's own process: {_INSTEAD[name]}"
    return (
        f"ranks cannot get the value of {name!r}: a {type(value).__name__} cannot be pickled ({error}). Make "
        f"it in the test; a fixture can be used by @pytest.mark.usefixtures({name!r}), a parameter can be "
        "a function or class at the top of a module, or a name"
    )


def decoded(text: str) -> dict[str, Any]:
    """The values of which ``encoded`` made the text, in a process that has imported the test's module."""
    return {name: pickle.loads(value) for name, value in pickle.loads(base64.b64decode(text)).items()}
