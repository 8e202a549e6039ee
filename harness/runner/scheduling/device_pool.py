"""``DevicePool`` hands each running batch accelerators of its own: tests that run at once share none.

A target that has several ranks on a device (``ranks_per_device``) shares out its places for ranks alike.
A worker gets its set by the variable that says which devices a process sees, before anything in it uses one.
So rank 0 of every test has the device 0 of its process, whichever of the machine's that is.
"""

from __future__ import annotations

from harness.targets.device_set import DeviceSet


class DevicePool:
    """The accelerators of a run that no batch has."""

    def __init__(self, devices: DeviceSet) -> None:
        self._devices = devices
        self._free = list(devices.names)
        self._held: dict[int, list[str]] = {}

    def environ(self, key: int, number: int) -> dict[str, str]:
        """The variable for the workers of a batch, by which they see its devices and no others.

        It takes ``number`` of the free ones, or as many as the run has; a batch that goes on in another
        worker keeps its own. Empty where the batch takes none, or no set can be handed out. The schedule
        starts no batch for which too few are free.
        """
        number = min(number, len(self._devices.names))
        if not number or not self._devices.variable:
            return {}
        if key not in self._held:
            assert number <= len(self._free), (key, number, self._free)
            self._held[key], self._free = self._free[:number], self._free[number:]
        return self._devices.visible(self._held[key])

    def held_by(self, key: int) -> int:
        """How many a batch has."""
        return len(self._held.get(key, ()))

    def give_back(self, key: int) -> None:
        """The batch has ended; its devices are free."""
        self._free += self._held.pop(key, [])
