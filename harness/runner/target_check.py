"""The target of a run, found out before its first test: why it cannot be tested, or what is known of it."""

from __future__ import annotations

from collections.abc import Mapping

from harness.errors import UsageError
from harness.runner.messages import Ready
from harness.settings import EnvVar, target_given
from harness.system.fork_safety import hindrance
from harness.targets import device_set, known
from harness.targets.current import current
from harness.targets.plugin import import_plugin


def problem(environ: Mapping[str, str]) -> str:
    """Imports the plugin, if any, and returns in one line why nothing can be tested; "" where it can.

    A plugin after whose import this process cannot be forked any more is a problem too: workers and ranks are
    forked from it. ``environ`` is this process's.
    """
    if not target_given(environ):
        return ""
    try:
        current()
        known.known_of(import_plugin(environ))
    except UsageError as error:
        return str(error)
    found = hindrance()
    if not found:
        return ""
    return (
        f"the import of the plugin {environ.get(EnvVar.PLUGIN)} {found}: do that when a group is made, so "
        "that ranks can be forked after the import"
    )


def ready(environ: Mapping[str, str]) -> Ready:
    """The message about the target, for an environment without a ``problem``."""
    if not target_given(environ):
        return Ready()
    target = current()
    table = known.to_json(known.known_of(import_plugin(environ)))
    devices = device_set.of_target(target, environ)
    if devices is None:
        return Ready(str(target), table)
    return Ready(str(target), table, list(devices.names), devices.variable)
