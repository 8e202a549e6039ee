"""Tests runs over hosts from the command line: one controller, its own agent and another one."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import psutil

from harness.errors import UsageError
from harness.hosts.key import new_key
from harness.runner import over_hosts
from suites.selftest.faults.base import ANNOUNCE
from suites.selftest.hosts.loopback import TREE


class OverHostsTest(unittest.TestCase):
    """The option ``--hosts`` of a run."""

    def free_port(self) -> int:
        """A port that nobody listens on."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            return int(listener.getsockname()[1])

    def test_two_hosts(self) -> None:
        """A run spans this host and that of an agent; both end with code 0, and no report has the key."""
        where, secret = f"127.0.0.1:{self.free_port()}", new_key()
        with tempfile.TemporaryDirectory() as directory:
            environ = {**os.environ, "HARNESS_KEY": secret, "HARNESS_STATE_DIR": directory}
            agent = subprocess.Popen(
                [sys.executable, "-m", "harness.agent", where, "--name", "other", "--wait", "300"],
                cwd=TREE,
                env=environ,
            )
            self.addCleanup(agent.wait)
            self.addCleanup(agent.kill)
            test = "suites.selftest.faults.hosts.Meets.test_sum"
            words = ["--hosts", f"2@{where}", "--placement", "spread", "-v", "--report-dir", directory, test]
            done = subprocess.run(
                [sys.executable, "run_tests.py", *words],
                cwd=TREE,
                env=environ,
                capture_output=True,
                text=True,
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(agent.wait(300), 0)
            with open(os.path.join(directory, "results.jsonl"), encoding="utf-8") as results:
                text = results.read()
        self.assertIn('"host":"other"', text)
        self.assertNotIn(secret, text)

    def test_controller_is_killed(self) -> None:
        """When the controller is killed, no process, file or port of its run is left on any host."""
        where, secret = f"127.0.0.1:{self.free_port()}", new_key()
        with contextlib.ExitStack() as undo:
            directory = undo.enter_context(tempfile.TemporaryDirectory())
            fifo = os.path.join(directory, "waiting")
            os.mkfifo(fifo)
            temporary = [os.path.join(directory, name) for name in ("here", "there")]
            for path in temporary:
                os.mkdir(path)
            environ = {
                **os.environ,
                "HARNESS_KEY": secret,
                "HARNESS_STATE_DIR": directory,
                "HARNESS_TIMEOUT": "300",
                ANNOUNCE: fifo,
            }
            agent_words = [where, "--name", "other", "--address", "127.0.0.12", "--wait", "300"]
            agent = subprocess.Popen(
                [sys.executable, "-m", "harness.agent", *agent_words],
                cwd=TREE,
                env={**environ, "TMPDIR": temporary[1]},
                stderr=subprocess.DEVNULL,
            )
            words = ["--hosts", f"2@{where}", "--placement", "spread", "-q", "--report-dir", directory]
            controller = subprocess.Popen(
                [sys.executable, "run_tests.py", *words, "suites.selftest.faults.waiting.Waits.test_waits"],
                cwd=TREE,
                env={**environ, "TMPDIR": temporary[0]},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for process in (agent, controller):
                undo.callback(process.wait)
                undo.callback(process.kill)
            with os.fdopen(os.open(fifo, os.O_RDWR)) as waiting:  # it has no end between the two ranks
                ranks = [int(waiting.readline()) for _ in range(2)]
            below = [psutil.Process(each.pid).children(recursive=True) for each in (controller, agent)]
            processes = [process for each in below for process in each]
            self.assertLessEqual(set(ranks), {process.pid for process in processes})
            ports = {
                (listening.laddr.ip, listening.laddr.port)
                for process in [*processes, psutil.Process(agent.pid), psutil.Process(controller.pid)]
                for listening in process.net_connections()
                if listening.status == psutil.CONN_LISTEN
            }
            self.assertGreaterEqual(len(ports), 5)  # the controller's, and two of each agent's
            controller.kill()
            self.assertEqual(agent.wait(300), 3)
            _, alive = psutil.wait_procs(processes, timeout=300)
            self.assertEqual(alive, [])
            for port in ports:
                with self.assertRaises(ConnectionRefusedError):
                    socket.create_connection(port)
            self.assertEqual([os.listdir(path) for path in temporary], [[], []])

    def test_no_key(self) -> None:
        """Without a key, and without a job by whose name one could be found, the error says what to do."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_KEY")}
        with mock.patch.dict(os.environ, clean, clear=True), self.assertRaisesRegex(UsageError, "--new-key"):
            over_hosts.over_hosts("2@127.0.0.1:5", lambda: 0)

    def test_agents(self) -> None:
        """A process that an engine has started with another number becomes the agent."""
        slurm = {
            "SLURM_PROCID": "1",
            "SLURM_NTASKS": "2",
            "SLURM_JOB_ID": "5",
            "SLURM_STEP_ID": "0",
            "SLURM_STEP_NODELIST": "n[1-2]",
            "MASTER_ADDR": "n1",
            "MASTER_PORT": "5",
        }
        become = mock.patch.object(os, "execve", side_effect=SystemExit)
        with mock.patch.dict(os.environ, slurm), become as execve, self.assertRaises(SystemExit):
            over_hosts.over_hosts("slurm", lambda: 0)
        _, words, variables = execve.call_args.args
        self.assertEqual(words[1:4], ["-m", "harness.agent", "n1:5"])
        self.assertIn(str(TREE), variables["PYTHONPATH"].split(os.pathsep))
        self.assertIn("slurm-5.", words[words.index("--key-file") + 1])


if __name__ == "__main__":
    unittest.main()
