"""How DDPOptimizer split a model, as frozen values that a test asserts on and a person reads.

    Split                    one graph that dynamo captured under DDP
      Bucket                 by readiness: the first is nearest the output, its gradients are done first
        CountedParameter     in the order in which the bucket counted them
        Boundary             a value that goes into the bucket's graph

``captured_splits`` (``harness.graphs.ddp_capture``) makes them. No torch is imported here.
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
    """A parameter that a bucket has counted: its name in the DDP module, and the bytes that it counted for.

    ``ignored``: DDP was told to leave it alone, so it should not have been counted.
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
    """A value between graphs: its name in the graph as captured, and the bucket that makes it.

    ``source`` None is the world outside: what the model is called with, and its buffers. Sizes that are
    symbols stand in ``shape`` as text; a size by itself has the dtype ``int`` or ``float`` and no shape.
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
    """A piece of the graph, and what it was counted by.

    ``cap`` is the number of bytes that fills it. ``ops`` are its operators as they run. ``inputs`` are what
    its graph is given besides parameters. ``graph`` is that graph's code as the backend was given it.
    ``extended_by`` counts operators that it took although it was full, because nothing in it was of any use
    to another piece.
    """

    cap: int
    parameters: tuple[CountedParameter, ...]
    ops: tuple[str, ...]
    inputs: tuple[Boundary, ...]
    graph: str
    extended_by: int = 0

    @property
    def size(self) -> int:
        """Bytes of all parameters."""
        return sum(each.size for each in self.parameters)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters, in the order in which they were counted."""
        return tuple(each.name for each in self.parameters)

    @property
    def starts(self) -> tuple[int, ...]:
        """The bytes that had been counted before each parameter."""
        return tuple(itertools.accumulate((each.size for each in self.parameters), initial=0))[:-1]

    @property
    def crossing_place(self) -> int | None:
        """The place among ``parameters`` of the one that filled the bucket; None where it never was full."""
        ends = (start + each.size for start, each in zip(self.starts, self.parameters, strict=True))
        return next((place for place, end in enumerate(ends) if end >= self.cap), None)

    @property
    def crossing(self) -> CountedParameter | None:
        """The parameter that filled the bucket; None where it never was full."""
        place = self.crossing_place
        return None if place is None else self.parameters[place]


@dataclass(frozen=True, slots=True)
class Split:
    """A graph and its buckets, nearest the output first.

    ``first_cap`` and ``cap`` are bytes. ``results`` are what the graph returns. ``missed`` are parameters
    that the graph uses and DDP reduces, but that no bucket counted. ``graph`` is the code as captured.
    """

    first_cap: int
    cap: int
    buckets: tuple[Bucket, ...]
    results: tuple[Boundary, ...]
    missed: tuple[CountedParameter, ...]
    graph: str

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """Names of the parameters of each bucket."""
        return tuple(bucket.names for bucket in self.buckets)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of each bucket."""
        return tuple(bucket.size for bucket in self.buckets)

    @property
    def crossings(self) -> tuple[Boundary, ...]:
        """The values that go from one bucket to another, each once, those of the first buckets first."""
        between = (value for bucket in self.buckets for value in bucket.inputs if value.source is not None)
        return tuple(dict.fromkeys(between))

    def outputs(self, index: int) -> tuple[Boundary, ...]:
        """What others need of a bucket: other buckets' inputs, and the graph's results, that it makes."""
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


def splits_to_json(splits: Iterable[Split]) -> str:
    """Splits as a JSON text, which ``splits_from_json`` reads and ``tools/draw_splits.py`` draws."""
    return json.dumps([asdict(split) for split in splits], indent=1)


def splits_from_json(text: str) -> tuple[Split, ...]:
    """The splits that ``splits_to_json`` wrote; UsageError for any other text."""
    try:
        return tuple(_split(each) for each in json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(
            f"this is no list of captured splits ({type(error).__name__}: {error}): give the text that "
            "harness.graphs.splits_to_json returns"
        ) from error


def _split(fields: Mapping[str, Any]) -> Split:
    return Split(
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
