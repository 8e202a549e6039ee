"""The operators that this version of torch has, for the tests of the tables of their names."""

from __future__ import annotations

import torch


def torch_operators(namespace: str) -> list[str]:
    """Returns the operators of a namespace with their overloads: ``allreduce_``, ``isend.default``."""
    found = torch._C._dispatch_get_all_op_names()
    return [name.partition("::")[2] for name in found if name.partition("::")[0] == namespace]


def functional_base(name: str) -> str:
    """Returns the name of a functional operator without its overload, "_" and "_out"."""
    return name.partition(".")[0].removesuffix("_").removesuffix("_out")
