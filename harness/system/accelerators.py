"""Tells which accelerators this process has used, without torch where nobody has imported it."""

from __future__ import annotations

import sys
from typing import Any

# Device types that torch has a module for. That of PrivateUse1 has the name that its maker gave it.
_KINDS = ("cuda", "xpu", "hpu", "mtia")


def in_use() -> dict[str, Any]:
    """The device types that this process has a context of, with torch's modules for them (``torch.cuda``)."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    modules = {kind: getattr(torch, kind, None) for kind in (*_KINDS, _private(torch))}
    return {
        kind: module
        for kind, module in modules.items()
        if module is not None and hasattr(module, "is_initialized") and module.is_initialized()
    }


def _private(torch: Any) -> str:
    """The device type of PrivateUse1; "privateuseone" where nobody has made one."""
    ask = getattr(getattr(torch, "_C", None), "_get_privateuse1_backend_name", None)
    return str(ask()) if ask else ""
