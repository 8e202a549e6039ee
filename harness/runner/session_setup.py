"""``Setup``: the fixed inputs of a session, and what follows from them for a record and for a worker."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness import conformance_features
from harness.configuration.override import Rule
from harness.conformance.known import judged
from harness.record import TestRecord
from harness.runner.messages import Fork, Item
from harness.runner.scheduling.plan import Attempt
from harness.runner.scheduling.schedule import Offer
from harness.runner.scheduling.time_limits import TimeLimits
from harness.runner.scheduling.timings import Timings, import_key
from harness.runner.scheduling.unit import Unit
from harness.runner.selection.applied_overrides import judged as judged_by_rules
from harness.setting_values import LARGEST_SEED
from harness.settings import EnvVar
from harness.targets.device_set import DeviceSet
from harness.targets.known import Known


@dataclass(frozen=True, slots=True)
class Setup:
    """The fixed inputs of a session.

    ``shuffle`` is the seed for ``ordered``, ``seed`` that of the tests, and ``chaos`` that of ranks' delays
    in the first round. ``known`` are the target's known failures and ``devices`` its accelerators. ``rules``
    are what a configuration file says of tests, by id, and ``today`` decides which quarantines are over.
    """

    units: dict[str, Unit]
    timings: Timings
    capacity: Offer
    limits: TimeLimits
    options: Fork
    isolate: bool = False
    seed: int | None = None
    chaos: int | None = None
    known: tuple[Known, ...] = ()
    devices: DeviceSet = field(default_factory=DeviceSet)
    shuffle: int | None = None
    rules: Mapping[str, Rule] = field(default_factory=dict)
    today: datetime.date = datetime.date.min

    def completed(self, record: TestRecord, attempt: Attempt, import_s: float | None) -> TestRecord:
        """The record of an attempt with what the controller knows of its test, and as it is judged.

        ``import_s`` are the seconds that the import of the test's module took, for one record of each module;
        None in the others. A test that is fine keeps no output.
        """
        extra = {**record.extra}
        unit = self.units[record.id]
        if import_s is not None:
            extra["fixtures_s"] = {**extra.get("fixtures_s", {}), import_key(unit.module): import_s}
        chaos = self._chaos_in(attempt)
        if chaos is not None:
            extra["chaos"] = chaos
        if unit.feature is not None:
            extra["feature"] = conformance_features.to_json(unit.feature)
        record = replace(
            record,
            attempt=attempt.attempt,
            repeat=attempt.repeat,
            seed=self.seed,
            output="" if record.ok else record.output,
            extra=extra,
        )
        return judged_by_rules(judged(record, self.known), self.rules, self.today)

    def options_for(self, items: Sequence[Item], environ: Mapping[str, str]) -> Fork:
        """The options of a worker for items of one batch; ``environ`` are variables that only it gets."""
        own = self.units[items[0].id].environ  # the same for all units of a batch
        chaos = self._chaos_in(items[0].attempt)  # a batch is of one round
        delays = {} if chaos is None else {EnvVar.CHAOS: str(chaos)}
        options = replace(self.options, environ={**self.options.environ, **dict(own), **environ, **delays})
        if any(item.ranks > 1 for item in items):
            return replace(options, threads=None)  # a worker with a thread pool could not fork ranks
        return options

    def _chaos_in(self, attempt: Attempt) -> int | None:
        """The seed of ranks' delays in an attempt's round: each round has the next one."""
        return None if self.chaos is None else (self.chaos + attempt.repeat - 1) % (LARGEST_SEED + 1)
