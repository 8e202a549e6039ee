"""Tests the fake accelerator, and what runs on machines with one to eight accelerators do, by means of it."""

from __future__ import annotations

import json
import subprocess
import tempfile
import unittest
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch.distributed as dist

from suites.selftest.targets import plugins
from suites.targets.hostmem_device.library import missing

PLUGIN = "suites.targets.hostmem"
#: The same, with four ranks on a device.
SHARED = f"""
from dataclasses import replace
from {PLUGIN} import TARGET as ALONE
TARGET = replace(ALONE, ranks_per_device=4)
"""
TESTS = Path(__file__).with_name("on_devices.py")


def setUpModule() -> None:
    """Skips all of it where the device cannot be compiled."""
    if missing():
        raise unittest.SkipTest(f"hostmem has to be compiled, and there is no {' and no '.join(missing())}")


class DeviceTest(unittest.TestCase):
    """The device by itself, in a process of its own."""

    def run_code(self, code: str, **environ: str) -> str:
        """What such code prints after the device is there."""
        with tempfile.TemporaryDirectory() as directory:
            done = plugins.run(
                Path(directory),
                *("-c", f"import torch\nimport {PLUGIN}\n{code}"),
                environ={**environ},
                warm=True,
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_import_uses_no_device(self) -> None:
        """The import leaves nothing behind that a fork would lose."""
        code = (
            "from harness.system import fork_safety\n"
            "print(fork_safety.is_clean(), torch.hostmem.device_count(), torch.accelerator.is_available())\n"
            "torch.ones(1, device='hostmem')\n"
            "print(fork_safety.is_clean())"
        )
        self.assertEqual(self.run_code(code, HOSTMEM_DEVICES="3"), "True 3 True\nFalse")

    def test_operators(self) -> None:
        """A step of training, views and resized storages are on the device, and as on the CPU."""
        code = """
import copy
torch.manual_seed(0)
plain = torch.nn.Sequential(
    torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Flatten(), torch.nn.Linear(32, 4)
)
inputs = torch.randn(2, 1, 6, 6)
made = []
for device in ("cpu", "hostmem:1"):
    model = copy.deepcopy(plain).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    loss = model(inputs.to(device)).square().sum()
    loss.backward()
    optimizer.step()
    made.append([loss, *model.parameters()])
    assert all(each.device == torch.device(device) for each in made[-1]), device
for one, other in zip(*made, strict=True):
    torch.testing.assert_close(other.cpu(), one)
held = torch.arange(6.0, device="hostmem:1").view(2, 3)
held.t()[1].mul_(10)
assert held.tolist() == [[0, 10, 2], [3, 40, 5]], held
assert held.unfold(1, 2, 1).device == held.device
turned = torch.tensor([1 + 2j], device="hostmem:1").conj()
assert turned.is_conj() and turned.cpu().tolist() == turned.clone().tolist() == [1 - 2j]
assert turned.imag.is_neg() and turned.imag.cpu().tolist() == [-2]
storage = held.untyped_storage()
storage.resize_(0)
assert torch.hostmem.memory_allocated(0) == 0
storage.resize_(24)
assert storage.device == held.device and storage.nbytes() == 24
print("as on the CPU")
"""
        self.assertEqual(self.run_code(code), "as on the CPU")

    def test_refusals(self) -> None:
        """A device that is not there, and one in the fork of a process that has used one, are errors."""
        code = """
import os
def told(body):
    try:
        body()
    except RuntimeError as error:
        print(str(error).splitlines()[0], flush=True)
told(lambda: torch.ones(1, device="hostmem:2"))
torch.ones(1, device="hostmem:1")
if os.fork() == 0:
    told(lambda: torch.ones(1, device="hostmem:1"))
    os._exit(0)
os.wait()
"""
        told = self.run_code(code, HOSTMEM_DEVICES="2").splitlines()
        self.assertEqual(told[0], "there is no device hostmem:2: there are 2")
        self.assertIn("hostmem was used before this process was forked", told[1])
        self.assertEqual(len(told), 2)

    def test_late_errors(self) -> None:
        """An error is raised by what waits for its stream, once, and by nothing before."""
        code = """
side = torch.Stream("hostmem:0")
with side:
    torch.hostmem.fail_later("late")
torch.ones(1, device="hostmem").item()
try:
    torch.hostmem.synchronize()
except RuntimeError as error:
    print(str(error).splitlines()[0])
torch.hostmem.synchronize()
"""
        self.assertEqual(self.run_code(code), "hostmem: late")


class DevicesTest(unittest.TestCase):
    """Runs on machines with so many accelerators."""

    def results(self, devices: int, *arguments: str, plugin: str = PLUGIN, **environ: str) -> dict[str, Any]:
        """What a run says of each test of ``on_devices``, by class and method."""
        with tempfile.TemporaryDirectory() as directory:
            plugins.write(Path(directory), "shared", SHARED)
            done = plugins.run(
                Path(directory),
                *(str(plugins.TREE / "run_tests.py"), str(TESTS), "--plugin", plugin),
                *("--report-dir", str(Path(directory, "run")), "--jobs", "4", *arguments),
                environ={"HOSTMEM_DEVICES": str(devices), **environ},
                warm=True,
            )
            lines = self.lines(Path(directory, "run", "results.jsonl"), done)
        tests = (each for each in map(json.loads, lines) if each["kind"] == "test")
        return {each["id"].partition(f"{TESTS.stem}.")[2]: each for each in tests}

    def lines(self, results: Path, done: subprocess.CompletedProcess[str]) -> list[str]:
        """The lines of a results file, which a run that did not begin has not written."""
        self.assertTrue(results.exists(), done.stderr + done.stdout)
        return results.read_text(encoding="utf-8").splitlines()

    def test_counts(self) -> None:
        """Ranks have a device each; a test that has more ranks than there are devices says so.

        ``skip_if_lt_x_gpu`` counts the target's devices too.
        """
        needed = {"TwoTest": 2, "FourTest": 4, "EightTest": 8}
        counted = {"CountedTest.test_two": 2, "CountedTest.test_eight": 8}
        names = [word for name in (*needed, "CountedTest") for word in ("-k", name)]
        for devices in (1, 2, 4, 8):
            results = self.results(devices, *names)
            with self.subTest(devices=devices):
                for test, least in counted.items():
                    status = "passed" if devices >= least else "skipped"
                    self.assertEqual(results.pop(test)["status"], status, test)
                self.assertEqual({test.partition(".")[0] for test in results}, set(needed))
            for test, found in results.items():
                ranks = needed[test.partition(".")[0]]
                with self.subTest(devices=devices, test=test):
                    if ranks <= devices:
                        self.assertEqual(found["status"], "passed", found)
                        continue
                    self.assertEqual(found["status"], "skipped")
                    self.assertEqual(
                        found["reason"],
                        f"needs {ranks} accelerators, one a rank: "
                        f"the target hostmem_gloo on hostmem has {devices}",
                    )

    def test_shared(self) -> None:
        """Where a device takes several ranks, tests run with as many as all devices take."""
        results = self.results(1, "-k", "SharedTest", "-k", "EightTest", plugin="shared")
        said = {(test.partition(".")[0], each["status"]) for test, each in results.items()}
        self.assertEqual(said, {("SharedTest", "passed"), ("EightTest", "skipped")})
        reasons = {each["reason"] for each in results.values() if each["status"] == "skipped"}
        self.assertEqual(
            reasons,
            {"needs 8 places for ranks, 4 on each device: the target hostmem_gloo on hostmem has 4"},
        )

    def test_late_errors(self) -> None:
        """What a test has left on a device fails that test, not the next one."""
        results = self.results(2, "-k", "LateTest")
        late, after = (results[test] for test in sorted(results))
        self.assertEqual((late["status"], after["status"]), ("error", "passed"))
        self.assertIn("hostmem: an index is out of bounds", json.dumps(late))

    def test_used_before(self) -> None:
        """Ranks of a process that has used a device are new processes."""
        results = self.results(2, "-k", "UsedBeforeTest")
        self.assertEqual([each["status"] for each in results.values()], ["passed"])

    def test_packed(self) -> None:
        """No more tests run at once than there are devices for, though there are processors for all."""
        for devices, fit in ((2, 1), (8, 3)):
            spans = self.spans(self.results(devices, "-k", "TakenTest", "--isolate"))
            most = max(sum(begun <= start < end for begun, end in spans) for start, _ in spans)
            with self.subTest(devices=devices):
                self.assertEqual(len(spans), 3)
                self.assertLessEqual(most, fit)

    def test_devices_of_its_own(self) -> None:
        """Tests that run at once have no device in common, and each sees its own as 0 and 1."""
        for devices, at_once in ((8, 3), (2, 1)):
            with self.subTest(devices=devices):
                found = self.held(devices, at_once)
                self.assertLessEqual({name for each in found for name in each}, set(map(str, range(devices))))
                together = [name for each in found[:at_once] for name in each]
                self.assertEqual(len(set(together)), 2 * at_once, found)

    def test_of_those_that_are_left(self) -> None:
        """A run that is shown four of the machine's devices hands out these, to two tests at once."""
        found = self.held(8, 2, HOSTMEM_VISIBLE_DEVICES="7,2,5,3")
        self.assertEqual(sorted(found[0] + found[1]), ["2", "3", "5", "7"])

    def held(self, devices: int, at_once: int, **environ: str) -> list[list[str]]:
        """The devices of three tests that take two each, in the order in which they got them."""
        with tempfile.TemporaryDirectory() as directory:
            store = Path(directory, "store")
            environ = {"HELD": str(at_once), "HELD_STORE": str(store), **environ}
            results = self.results(devices, "-k", "OwnDevicesTest", "--isolate", **environ)
            self.assertEqual([each["status"] for each in results.values()], ["passed"] * 3, results)
            told = dist.FileStore(str(store))
            return [told.get(f"devices of {number}").decode().split(",") for number in (1, 2, 3)]

    def test_memory(self) -> None:
        """Tests that need more than half of the memory run one after the other, with devices for both."""
        first, second = self.spans(self.results(8, "-k", "MemoryTest", "--isolate"))
        self.assertLessEqual(first[1], second[0])

    def spans(self, results: Mapping[str, Any]) -> list[tuple[float, float]]:
        """When tests began and ended, in seconds."""
        found = ((each["started_at"], each["started_at"] + each["duration_s"]) for each in results.values())
        return sorted(found)


if __name__ == "__main__":
    unittest.main()
