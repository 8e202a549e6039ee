"""Resolves the target of this process from its environment, once; the default is gloo on the CPU."""

from __future__ import annotations

import functools
import importlib
import os
import sys

from harness.configuration import variables
from harness.environment import environment
from harness.errors import UsageError
from harness.settings import TARGET_VARIABLES, EnvVar
from harness.targets import builtin, plugin
from harness.targets.target import Target

_VARIABLES = (*TARGET_VARIABLES, EnvVar.BACKEND)


def current() -> Target:
    """The target that this process tests.

    UsageError, in one line, where the plugin does not import, no target fits what was asked for, what was
    asked for contradicts itself, or torch does not know the backend or the device.
    """
    environ = environment()
    if not any(name in environ for name in TARGET_VARIABLES):
        _take_from_file()
        environ = environment()
    return _resolved(*(environ.get(name, "").strip() for name in _VARIABLES))


@functools.cache
def _take_from_file() -> None:
    """Takes what a project's configuration file says into the environment, which ranks inherit.

    The runner and the pytest plugin have done so; a suite module that is run by itself asks for its target
    while it is imported.
    """
    variables.apply(os.environ)


@functools.cache
def _resolved(backend: str, device_type: str, name: str, upstream: str) -> Target:
    if not (backend or device_type or name):
        return builtin.gloo()
    backend = backend.lower()
    module = plugin.import_plugin({EnvVar.PLUGIN: name})
    found = plugin.targets_of(module) if module is not None else ()
    target = plugin.choose(found, backend or None, device_type or None, where=f"the plugin {name}")
    target = target or builtin.find(backend or None, device_type or None)
    if target is None:
        raise UsageError(_unknown(backend, device_type, name))
    _check_upstream(target, upstream)
    _check_torch(target, name)
    return target


def _unknown(backend: str, device_type: str, name: str) -> str:
    name_of_it = f"the backend {backend}" if backend else "a backend"
    asked = " on ".join(word for word in (name_of_it, device_type) if word)
    known = ", ".join(f"{each} on cpu" for each in builtin.backends())
    if name:
        return f"the plugin {name} has no TARGET, and {asked} is unknown: give it TARGET = Target(...)"
    return (
        f"{asked} is unknown: --plugin names the module that registers it and has its TARGET "
        f"(docs/targets.rst); known without one: {known}"
    )


def _check_upstream(target: Target, upstream: str) -> None:
    """Refuses ``BACKEND``, which requirements reckon with, where it names another backend."""
    if upstream and upstream.lower() != target.backend:
        raise UsageError(
            f"{EnvVar.BACKEND}={upstream!r} contradicts the target {target}: unset it, or give both one value"
        )


def _check_torch(target: Target, name: str) -> None:
    """Refuses a backend or a device type that torch does not know, after the plugin was imported."""
    import torch

    source = f"the plugin {name}" if name else "torch"
    try:
        torch.device(target.device_type)
    except RuntimeError as error:
        said = str(error).split("\n", 1)[0]
        raise UsageError(f"{source} has no device type {target.device_type!r}: {said}") from None
    distributed = sys.modules.get("torch.distributed") or importlib.import_module("torch.distributed")
    known = distributed.Backend.backend_list
    if target.backend not in known:
        raise UsageError(
            f"{source} does not register the backend {target.backend!r} of its target "
            f"(torch.distributed.Backend.register_backend); registered: {', '.join(sorted(known))}"
        )
