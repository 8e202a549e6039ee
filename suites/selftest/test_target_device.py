"""Where the suites of one process have their tensors, by the run's target."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from suites.selftest.targets import plugins
from suites.targets.hostmem_device.library import missing

CODE = """
import unittest
import torch
from harness.targets import is_undeclared
from suites.aot.base import AotTestCase, ramp
from suites.patterns.base import PatternTestCase, fullgraph

class AotTest(AotTestCase):
    def test_inputs(self):
        seen.append(str(ramp(2).device))
        self.verify(lambda x: x + 1, [ramp(2)])

    def test_inductor(self):
        self.verify(lambda x: x + 1, [ramp(2)], backend="inductor")

class PatternTest(PatternTestCase):
    def test_inputs(self):
        seen.append(str(torch.nn.Linear(1, 1).weight.device))

    def test_inductor(self):
        fullgraph(lambda x: x + 1)(ramp(2))

seen = []
result = unittest.TestResult()
for case in (AotTest, PatternTest):
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
print(*seen, torch.ones(1).device)
print(result.errors, result.failures, [is_undeclared(reason) for _, reason in result.skipped])
"""


class DefaultDeviceTest(unittest.TestCase):
    """Tests that name no device."""

    def run_code(self, **environ: str) -> list[str]:
        """What the suites' cases print about their tensors under a target."""
        with tempfile.TemporaryDirectory() as directory:
            done = plugins.run(Path(directory), "-c", CODE, environ=environ)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    @unittest.skipIf(missing(), "hostmem has to be compiled")
    def test_accelerator(self) -> None:
        """They run on it, what needs inductor is not declared, and the device is given back."""
        found = self.run_code(HARNESS_PLUGIN="suites.targets.hostmem", HOSTMEM_DEVICES="2")
        self.assertEqual(found, ["hostmem:0 hostmem:0 cpu", "[] [] [True, True]"])

    def test_cpu(self) -> None:
        """Without a target they run on the CPU, all of them."""
        self.assertEqual(self.run_code(), ["cpu cpu cpu", "[] [] []"])


if __name__ == "__main__":
    unittest.main()
