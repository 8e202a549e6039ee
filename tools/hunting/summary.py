"""What a hunt has found in all: known bugs and how often, new ones with a script each, and the curve."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.hunting.journal import Batch, Find

# Parts of a hunt for which new finds are counted, to see whether they become rarer.
PARTS = 8
# How many lines tell of a race: that it is one, a schedule that passes, and one that fails.
RACE_LINES = 3


@dataclass(frozen=True, slots=True)
class Summary:
    """The lines to print, and the script of each new signature that was confirmed, by the file's name."""

    lines: tuple[str, ...]
    scripts: dict[str, str]


def summary(records: Sequence[Batch | Find]) -> Summary:
    """Sums up a journal."""
    finds = [each for each in records if isinstance(each, Find)]
    known = Counter(find.entry for find in finds if find.entry is not None)
    new: dict[str, list[Find]] = defaultdict(list)
    for find in finds:
        if find.entry is None and find.shrunk:
            new[str(find.signature)].append(find)
    confirmed = {text: group for text, group in new.items() if any(find.confirmed for find in group)}
    scripts = {file_name(text): _script(text, group) for text, group in confirmed.items()}
    lines = [*_programs(records), f"known: {sum(known.values())} times"]
    lines += [f"  {count:5} {name}" for name, count in known.most_common()]
    lines.append(f"new: {len(confirmed)}; only on ranks, and not as a script: {len(new) - len(confirmed)}")
    for text, group in sorted(confirmed.items(), key=lambda item: -len(item[1])):
        lines.append(f"  {len(group):5} {file_name(text)} {text}")
        lines += [f"        {line}" for find in group if find.is_race for line in _race(find)][:RACE_LINES]
    return Summary((*lines, curve(records)), scripts)


def _programs(records: Sequence[Batch | Find]) -> Iterator[str]:
    """What each fuzzer ran."""
    batches = [each for each in records if isinstance(each, Batch)]
    for fuzzer in sorted({batch.fuzzer for batch in batches}):
        own = [batch for batch in batches if batch.fuzzer == fuzzer]
        ran, failed, seconds = (sum(getattr(b, name) for b in own) for name in ("ran", "failed", "seconds"))
        rejected = sum(batch.rejected for batch in own)
        yield f"{fuzzer}: {ran} programs in {seconds / 60:.0f} minutes, {failed} failed, {rejected} rejected"


def curve(records: Sequence[Batch | Find]) -> str:
    """How many signatures each part of the hunt saw first, by the order of the journal."""
    finds = [each for each in records if isinstance(each, Find) and each.shrunk]
    seen: set[str] = set()
    counts = [0] * PARTS
    for place, find in enumerate(finds):
        text = str(find.signature)
        counts[place * PARTS // len(finds)] += text not in seen
        seen.add(text)
    return f"signatures first seen in each eighth of {len(finds)} shrunk finds: {counts}"


def file_name(signature: str) -> str:
    """The name of a signature's script."""
    return f"new-{hashlib.sha256(signature.encode()).hexdigest()[:10]}.py"


def _script(signature: str, group: Sequence[Find]) -> str:
    """The shortest script, with what is known of it above."""
    find = min((each for each in group if each.confirmed), key=lambda each: len(each.script))
    told = [signature, f"--fuzzer {find.drawn_by}, seed {find.seed}, program {find.number}"]
    told += [f"torch {release}: {came or 'passes'}" for release, came in find.releases.items()]
    told += [*_race(find)] if find.is_race else []
    return "".join(f"# {line}\n" for line in told) + find.script


def _race(find: Find) -> Iterator[str]:
    """That the delays of its ranks decide how a program ends: a schedule that passes, and one that fails."""
    yield "a race; on ranks of the harness it"
    ends = sorted(find.schedules.items(), key=lambda end: bool(end[1]))
    for delays, came in (ends[0], ends[-1]):
        yield f"  {'passes' if not came else 'fails'} with {delays}{came and ': '}{came}"
