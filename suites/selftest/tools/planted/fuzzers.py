"""The fuzzers with something planted, for ``harness.fuzzing.hunted.FUZZERS``."""

from __future__ import annotations

_HERE = __name__.rpartition(".")[0]
PLANTED = {"odd sums": f"{_HERE}.odd_sums:OddSums", "racing": f"{_HERE}.racing:Racing"}
