"""How DDPOptimizer split a model, as frozen values that a test asserts on and a person reads.

    DdpSplit                    one graph that dynamo captured under DDP
      Bucket                 ordered by readiness: the first is nearest the output, its gradients come first
        CountedParameter     in the order in which the bucket counted them
        Boundary             a value that is an input of the bucket's graph

``captured_splits`` (``harness.graphs.ddp_capture``) makes them. This module does not import torch.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from harness.errors import UsageError

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class CountedParameter:
    """A parameter that a bucket counted, by its name in the DDP module; ``size`` is the bytes counted for it.

    ``ignored``: DDP was told to ignore it, so it should not have been counted.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    size: int
    ignored: bool = False

    def __str__(self) -> str:
        mark = ", ignored by DDP" if self.ignored else ""
        return f"{self.name}  {_kind(self.dtype, self.shape)}  {self.size:,} bytes{mark}"


@dataclass(frozen=True, slots=True)
class Boundary:
    """A value that enters or leaves a bucket's graph: its name as captured, and the bucket that computes it.

    ``source`` is None for a value from outside: an argument of the model or a buffer. Symbolic sizes stand in
    ``shape`` as text; a size that is itself passed on has the dtype ``int`` or ``float`` and no shape.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str
    source: int | None = None

    def __str__(self) -> str:
        origin = "from outside" if self.source is None else f"from bucket {self.source}"
        return f"{self.name}  {_kind(self.dtype, self.shape)}  {origin}"


@dataclass(frozen=True, slots=True)
class Bucket:
    """One piece of a split graph, and the parameters that it counted.

    ``cap`` is the number of bytes that fills it. ``ops`` are its operators in the order in which they run.
    ``inputs`` are its graph's inputs other than parameters. ``graph`` is the graph's code as the backend was
    given it. ``extended_by`` is the number of operators that it took although it was full, because nothing
    outside used any of its results.
    """

    cap: int
    parameters: tuple[CountedParameter, ...]
    ops: tuple[str, ...]
    inputs: tuple[Boundary, ...]
    graph: str
    extended_by: int = 0

    @property
    def size(self) -> int:
        """The bytes of all its parameters."""
        return sum(each.size for each in self.parameters)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its parameters, in the order in which they were counted."""
        return tuple(each.name for each in self.parameters)

    @property
    def starts(self) -> tuple[int, ...]:
        """For each parameter, the bytes that had been counted before it."""
        return tuple(itertools.accumulate((each.size for each in self.parameters), initial=0))[:-1]

    @property
    def crossing_place(self) -> int | None:
        """The index in ``parameters`` of the one that filled the bucket; None if it never was full."""
        ends = (start + each.size for start, each in zip(self.starts, self.parameters, strict=True))
        return next((place for place, end in enumerate(ends) if end >= self.cap), None)

    @property
    def crossing(self) -> CountedParameter | None:
        """The parameter that filled the bucket; None if it never was full."""
        place = self.crossing_place
        return None if place is None else self.parameters[place]


@dataclass(frozen=True, slots=True)
class DdpSplit:
    """A graph and its buckets, nearest the output first.

    ``first_cap`` and ``cap`` are bytes. ``results`` are the values that the graph returns. ``missed`` are
    parameters that the graph uses and DDP reduces, but that no bucket counted. ``graph`` is the code as
    captured.
    """

    first_cap: int
    cap: int
    buckets: tuple[Bucket, ...]
    results: tuple[Boundary, ...]
    missed: tuple[CountedParameter, ...]
    graph: str

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """The names of the parameters of each bucket."""
        return tuple(bucket.names for bucket in self.buckets)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The bytes of each bucket."""
        return tuple(bucket.size for bucket in self.buckets)

    @property
    def crossings(self) -> tuple[Boundary, ...]:
        """The values that pass from one bucket to another, each once, in the order of the reading buckets."""
        between = (value for bucket in self.buckets for value in bucket.inputs if value.source is not None)
        return tuple(dict.fromkeys(between))

    def outputs(self, index: int) -> tuple[Boundary, ...]:
        """The values of bucket ``index`` that other buckets read or the graph returns."""
        used = (*self.crossings, *self.results)
        return tuple(dict.fromkeys(value for value in used if value.source == index))

    def __str__(self) -> str:
        lines = [
            f"{_buckets(len(self.buckets))}, nearest the output first; "
            f"full at {_mib(self.first_cap)}, the others at {_mib(self.cap)}"
        ]
        for index, bucket in enumerate(self.buckets):
            lines += [f"  bucket {index}: {bucket.size:,} bytes{_filled(bucket)}"]
            lines += [f"    {each}" for each in bucket.parameters]
            lines += [f"    in   {each}" for each in bucket.inputs]
            lines += [
                f"    out  {each.name}  {_kind(each.dtype, each.shape)}" for each in self.outputs(index)
            ]
        lines += [f"  in no bucket: {each}" for each in self.missed]
        return "\n".join(lines)


def splits_to_json(splits: Iterable[DdpSplit]) -> str:
    """Splits as a JSON text, which ``splits_from_json`` reads and ``tools/draw_splits.py`` draws."""
    return json.dumps([asdict(split) for split in splits], indent=1)


def splits_from_json(text: str) -> tuple[DdpSplit, ...]:
    """The splits that ``splits_to_json`` wrote; UsageError for any other text."""
    try:
        return tuple(_split(each) for each in json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(
            f"this is no list of captured splits ({type(error).__name__}: {error}): give the text that "
            "harness.graphs.splits_to_json returns"
        ) from error


def _split(fields: Mapping[str, Any]) -> DdpSplit:
    return DdpSplit(
        **{
            **fields,
            "buckets": tuple(_bucket(each) for each in fields["buckets"]),
            "results": tuple(_boundary(each) for each in fields["results"]),
            "missed": tuple(_parameter(each) for each in fields["missed"]),
        }
    )


def _bucket(fields: Mapping[str, Any]) -> Bucket:
    return Bucket(
        **{
            **fields,
            "parameters": tuple(_parameter(each) for each in fields["parameters"]),
            "ops": tuple(fields["ops"]),
            "inputs": tuple(_boundary(each) for each in fields["inputs"]),
        }
    )


def _parameter(fields: Mapping[str, Any]) -> CountedParameter:
    return CountedParameter(**{**fields, "shape": tuple(fields["shape"])})


def _boundary(fields: Mapping[str, Any]) -> Boundary:
    return Boundary(**{**fields, "shape": tuple(fields["shape"])})


def _kind(dtype: str, shape: tuple[int | str, ...]) -> str:
    return (
        dtype if dtype in ("int", "float", "bool") and not shape else f"{dtype}{list(shape)}".replace("'", "")
    )


def _mib(size: int) -> str:
    return f"{size / MIB:.4g} MiB"


def _buckets(count: int) -> str:
    return "1 bucket" if count == 1 else f"{count} buckets"


def _filled(bucket: Bucket) -> str:
    text = "" if bucket.crossing is None else f", filled by {bucket.crossing.name}"
    return f"{text}, {bucket.extended_by} ops taken when full" if bucket.extended_by else text
