"""What Bazel asks of a test by environment variables, besides its shards (``shard_variables``).

``TESTBRIDGE_TEST_ONLY`` (``--test_filter``) is a ``-k``, where the command line has none.
``TEST_UNDECLARED_OUTPUTS_DIR`` gets the run's files, where no ``--report-dir`` is given, and
``XML_OUTPUT_FILE`` the JUnit file. Some seconds before ``TEST_TIMEOUT`` is over the run is ended in good
order, so that there are reports. (Bazel's "Test encyclopedia" has the variables.)
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.errors import UsageError

FILTER = "TESTBRIDGE_TEST_ONLY"
OUTPUTS = "TEST_UNDECLARED_OUTPUTS_DIR"
XML = "XML_OUTPUT_FILE"
TIMEOUT = "TEST_TIMEOUT"
TEMPORARY = "TEST_TMPDIR"
# Says that Bazel is what has set the others: the names of the time limit and the directory are anybody's.
IS_BAZEL = "BAZEL_TEST"
# The directory of a run's files, and the state directory, in those that Bazel gives.
RUN_DIRECTORY = "torch-harness"
# Of the time limit, what is left for ending the run: a twentieth, but no more seconds than that takes.
SPARE = 0.05
MOST_SPARE_S = 10.0


def with_options(chosen: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The options that the command line names, and those that Bazel asks for where it does not."""
    wanted = dict(chosen)
    if environ.get(FILTER):
        wanted.setdefault("keywords", [environ[FILTER]])
    if environ.get(OUTPUTS) and "resume" not in chosen:
        wanted.setdefault("report_dir", os.path.join(environ[OUTPUTS], RUN_DIRECTORY))
    return wanted


def filter_arguments(arguments: list[str], environ: Mapping[str, str]) -> list[str]:
    """The arguments of unittest's command line, with Bazel's filter where they have none."""
    given = any(word.startswith("-k") for word in arguments)
    return arguments if given or not environ.get(FILTER) else [*arguments, "-k", environ[FILTER]]


def is_asked_for_more(environ: Mapping[str, str]) -> bool:
    """Whether Bazel wants of a test what unittest's own command line does not do: reports, an end in time."""
    return bool(environ.get(IS_BAZEL) or environ.get(XML))


def runner_arguments(arguments: Sequence[str]) -> list[str] | None:
    """Arguments of unittest's command line as this runner's; None where it has not all of them.

    Names are left to unittest: they are classes and methods of the module there.
    """
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        if word in ("-v", "--verbose", "-q", "--quiet", "-f", "--failfast"):
            kept.append({"-f": "--failfast"}.get(word, word))
        elif word == "-k":
            kept += [word, next(words, "")]
        elif word.startswith("-k"):
            kept.append(word)
        else:
            return None
    return kept


def xml_file(environ: Mapping[str, str]) -> Path | None:
    """Where the JUnit file is wanted besides the run's directory; None where it is not."""
    return Path(environ[XML]) if environ.get(XML) else None


def temporary_directory(environ: Mapping[str, str]) -> str | None:
    """The directory in which Bazel lets a test write; None outside of Bazel."""
    return environ.get(TEMPORARY) or None if environ.get(IS_BAZEL) else None


def time_limit_s(environ: Mapping[str, str]) -> float | None:
    """The seconds after which the run has to be ended; None without a limit. UsageError for no number."""
    text = environ.get(TIMEOUT, "") if environ.get(IS_BAZEL) else ""
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.0 < seconds < math.inf:
        raise UsageError(f"{TIMEOUT}={text!r}: write a number of seconds above 0")
    return seconds - min(SPARE * seconds, MOST_SPARE_S)


def without_bazel(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without what is meant for this run: a run that a test starts is not Bazel's test."""
    ours = (FILTER, OUTPUTS, XML, TIMEOUT)
    return {name: value for name, value in environ.items() if name not in ours}
