"""Tests runs under small limits, without rights, and in namespaces that lack something."""

from __future__ import annotations

import functools
import os
import resource
import subprocess
import sys
import unittest
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness import instantiate_parametrized_tests, parametrize
from suites.selftest.environments.rows import EnvironmentCase, Row, each


def _limit(which: int, most: int) -> Callable[[], object]:
    return functools.partial(resource.setrlimit, which, (most, most))


ROOT = os.geteuid() == 0


@functools.cache
def refused(*command: str) -> str:
    """Returns why a command cannot be run here, or an empty string."""
    try:
        done = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        return str(error)
    return "" if done.returncode == 0 else f"{' '.join(command)}: {done.stderr.strip()}"


def unshared(name: str, options: str, script: str = "true", **fields: Any) -> Row:
    """Returns the row of a namespace of its own, in which the script runs before the command."""
    command = ("unshare", *options.split(), "sh", "-c", f'{script} && exec "$@"', "sh")
    why = functools.partial(refused, *command)
    return Row(name, prefix=command, why_not=why, **fields)


def held_to_rights(name: str, **fields: Any) -> Row:
    """Returns the row of a user whom file permissions bind, as they do not bind root."""
    command = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if ROOT else ()
    return Row(name, prefix=command, why_not=functools.partial(refused, *command), **fields)


# A user without other processes: a limit of processes counts all of them.
USER = ("setpriv", "--reuid=61234", "--regid=61234", "--clear-groups", "env")


def _no_user() -> str:
    return refused(*USER, sys.executable, "-c", "pass") if ROOT else "only root can become another user"


AS_USER: Mapping[str, Any] = {
    "prepare": functools.partial(Path.chmod, mode=0o777),
    "why_not": _no_user,
}


def _read_only(directory: Path) -> None:
    directory.chmod(0o555)


def _read_only_temporary(directory: Path) -> None:
    (directory / "temporary").mkdir(mode=0o555)


ROWS = (
    Row("``ulimit -n 64``", in_child=_limit(resource.RLIMIT_NOFILE, 64)),
    Row(
        "``ulimit -n 12``",
        in_child=_limit(resource.RLIMIT_NOFILE, 12),
        by=("unittest",),
        says="no descriptors for 2 ranks: [Errno 24] Too many open files; they take 18, and the limit is 12",
    ),
    Row(
        "``ulimit -n 13``",
        in_child=_limit(resource.RLIMIT_NOFILE, 13),
        by=("run_tests",),
        says="Too many open files: raise the limit of open files (ulimit -n)",
        code=3,
    ),
    Row("``ulimit -v 400000``", in_child=_limit(resource.RLIMIT_AS, 400_000 * 1024)),
    Row("``ulimit -s 512``", in_child=_limit(resource.RLIMIT_STACK, 512 * 1024)),
    Row("another user without a home", prefix=USER, variables={"HOME": "/no/such/directory"}, **AS_USER),
    Row(
        "``ulimit -u 2``",
        prefix=(*USER, "prlimit", "--nproc=2"),
        says="could not be started: [Errno 11] Resource temporarily unavailable",
        by=("unittest",),
        **AS_USER,
    ),
    Row(
        "``ulimit -f 0``",
        in_child=_limit(resource.RLIMIT_FSIZE, 0),
        says="no temporary file: [Errno 2] No usable temporary directory found",
    ),
    held_to_rights("``umask 0777``", in_child=functools.partial(os.umask, 0o777)),
    Row("``nice -n 19``", in_child=functools.partial(os.nice, 19)),
    held_to_rights("a tree that cannot be written", prepare=_read_only),
    held_to_rights(
        "``TMPDIR`` that cannot be written",
        variables={"TMPDIR": "{here}/temporary"},
        prepare=_read_only_temporary,
    ),
    unshared(
        "``TMPDIR`` on a full disk",
        "-m",
        "mount -t tmpfs -o size=4k none /mnt && (head -c 4096 /dev/zero >/mnt/all || true)",
        variables={"TMPDIR": "/mnt"},
    ),
    unshared("``/dev/shm`` full", "-m", "mount -t tmpfs -o size=4k none /dev/shm"),
    unshared("``/proc`` not mounted", "-m", "mount -t tmpfs none /proc", says="/proc is not mounted", code=3),
    unshared("``/proc`` with ``hidepid=2``", "-m", "mount -t proc -o hidepid=2 proc /proc"),
    unshared("a process namespace", "-p -f --mount-proc"),
    unshared("no network interface", "-n"),
    unshared(
        "no network interface, gloo",
        "-n",
        sample="sample_reduce",
        by=("unittest",),
        says="Unable to find interface for: [127.0.0.1]",
    ),
    unshared(
        "a host name that does not resolve",
        "-u",
        "hostname no-such-host",
        sample="sample_reduce",
        by=("unittest",),
    ),
)


class LimitsTest(EnvironmentCase):
    """Limits, rights and namespaces."""

    @parametrize("row", each(ROWS))
    def test_row(self, row: Row) -> None:
        """The run comes to what the row says."""
        self.run_row(row)


instantiate_parametrized_tests(LimitsTest)

if __name__ == "__main__":
    unittest.main()
