"""Tests whole runs of scripts that know nothing of the harness, and what ends of ranks come to."""

from __future__ import annotations

import re
import unittest

from harness.outcomes import ErrorInfo, RankOutcome, Status
from harness.ranks.job import JobResult
from harness.run.launch import exit_code, verdict
from suites.selftest.run.scripts import ScriptCase

# A script of data-parallel training as torchrun's documentation has it.
TRAIN = """
    import argparse, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--epochs", type=int)
        epochs = parser.parse_args().epochs
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        model = DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
        for _ in range(epochs):
            model(torch.full((1, 2), 1.0 + dist.get_rank())).sum().backward()
        print("grad", model.module.weight.grad.tolist(), flush=True)
        dist.destroy_process_group()

    if __name__ == "__main__":
        main()
    """
# What each rank of a broken program does after it has met the others.
BROKEN = """
    import os, signal, sys, threading
    import torch, torch.distributed as dist

    def broken():
        {broken}

    dist.init_process_group("gloo")
    dist.barrier()
    if dist.get_rank() == 1:
        broken()
    dist.all_reduce(torch.ones(1))
    """


class PassTest(ScriptCase):
    """Scripts that pass."""

    def test_training(self) -> None:
        """A DDP script with env:// rendezvous, its own options and a name guard passes on four ranks."""
        self.write("train.py", TRAIN)
        run = self.play("-n", "4", "train.py", "--epochs", "2")
        self.assertEqual((run.code, run.err), (0, ""))
        self.assertEqual([run.of_rank(rank) for rank in range(4)], [["grad [[5.0, 5.0]]"]] * 4)

    def test_two_runs_at_once(self) -> None:
        """Two runs on one machine have groups, ports and ids of their own."""
        self.write(
            "meet.py",
            """
            import os, torch.distributed as dist
            dist.init_process_group("gloo")
            dist.barrier()
            print(os.environ["MASTER_PORT"], os.environ["TORCHELASTIC_RUN_ID"])
            """,
        )
        runs = [self.finish(p) for p in [self.start("-n", "2", "meet.py") for _ in range(2)]]
        self.assertEqual([run.code for run in runs], [0, 0], runs)
        first, second = (run.of_rank(0)[-1].split() + run.of_rank(1)[-1].split() for run in runs)
        self.assertEqual((first[:2], second[:2]), (first[2:], second[2:]))
        self.assertFalse(set(first) & set(second))

    def test_module(self) -> None:
        """A module is found from the working directory; relative imports and arguments are its own."""
        self.write("pkg/__init__.py", "")
        self.write("pkg/part.py", "NAME = 'part'")
        self.write(
            "pkg/mod.py", "import sys\nfrom .part import NAME\nprint(NAME, __name__, sys.argv, sys.path[0])"
        )
        run = self.play("-n", "2", "-m", "pkg.mod", "-m", "x")
        argv = [str(self.directory / "pkg/mod.py"), "-m", "x"]
        self.assertEqual((run.code, run.err), (0, ""))
        self.assertEqual(run.of_rank(1), [f"part __main__ {argv} {self.directory}"])

    def test_like_python(self) -> None:
        """A script sees what Python shows it: path, arguments, threads and exit functions."""
        self.write(
            "deep/script.py",
            """
            import atexit, os, pickle, sys, tempfile, threading, warnings
            import neighbour

            class Thing: pass

            atexit.register(print, "atexit")
            print(sys.argv, sys.path[0], __file__)
            assert type(pickle.loads(pickle.dumps(Thing()))) is Thing
            # torch, which every rank has imported, has a thread, and Python 3.12 warns of forks beside one.
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
            child = os.fork()
            if child == 0: os._exit(7)
            gate = threading.Event()
            threading.Thread(target=lambda: (gate.wait(), print("thread"))).start()
            threading._register_atexit(gate.set)  # so that it ends only when Python waits for it
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), repr(sys.stdin.read()))
            print("to stderr", file=sys.stderr)
            sys.exit()
            """,
        )
        self.write("deep/neighbour.py", "")
        run = self.play("-n", "1", "deep/script.py", "a b", "--", "-n")
        folder = self.directory / "deep"
        said = [f"['deep/script.py', 'a b', '--', '-n'] {folder} {folder}/script.py", "7 ''", "to stderr"]
        self.assertEqual((run.code, run.err), (0, ""))
        self.assertEqual(sorted(run.out.splitlines()), sorted([*said, "thread", "atexit"]))
        self.assertEqual(run.out.splitlines()[-1], "atexit")

    def test_left_by_exit_code(self) -> None:
        """``os._exit(0)``, and another program by exec that ends so, pass; processes left are named."""
        self.write(
            "leave.py", "import os, sys; print('x', flush=True)\nif os.environ['RANK'] == '1': os._exit(0)"
        )
        self.write("exec.py", "import os, sys\nos.execv(sys.executable, [sys.executable, '-c', ''])")
        self.write(
            "leave_child.py", "import subprocess\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)"
        )
        for name, said in (("leave.py", ""), ("exec.py", ""), ("leave_child.py", "left behind and ended: ")):
            with self.subTest(name):
                run = self.play("-n", "2", name)
                self.assertEqual(run.code, 0, run.err)
                self.assertIn(said, run.err)
                self.assertEqual(bool(said), bool(run.err), run.err)

    def test_output(self) -> None:
        """Bytes as they come, or nothing; all of it in the log files."""
        self.write("print.py", "import os; print('r' + os.environ['RANK'], end='')")
        run = self.play("-n", "2", "--output", "raw", "--log-dir", "logs", "print.py")
        self.assertIn(run.out, ("r0r1", "r1r0"))
        logs = {path.name: path.read_text() for path in (self.directory / "logs").iterdir()}
        self.assertEqual(logs, {"print.py.rank0.log": "r0", "print.py.rank1.log": "r1"})
        self.assertEqual(self.play("-n", "2", "--output", "capture", "print.py").out, "")

    def test_spawn(self) -> None:
        """The other launcher runs the same script."""
        self.write("train.py", TRAIN)
        run = self.play("-n", "2", "train.py", "--epochs", "1", HARNESS_LAUNCHER="spawn")
        self.assertEqual((run.code, run.of_rank(1)), (0, ["grad [[1.5, 1.5]]"]), run.err)


class FailureTest(ScriptCase):
    """Scripts of which one rank breaks while the others wait for it."""

    def broken(self, *argv: str, how: str) -> str:
        """Runs a program whose rank 1 breaks, checks the exit code and returns what the command said."""
        self.write("broken.py", BROKEN.format(broken=how))
        run = self.play("-n", "3", *argv, "broken.py")
        self.assertEqual(run.code, 1, run.err)
        self.assertIn("reproduce: python -m harness.run -n 3 ", run.err)
        return run.err

    def test_first_is_the_cause(self) -> None:
        """The report names the rank that broke first, and where; what others say of it is no cause."""
        for how, cause in (
            ("raise ValueError('no good')", "cause: rank 1 raised: ValueError: no good"),
            ("assert 1 == 2", "cause: rank 1 failed: AssertionError"),
            ("sys.exit(3)", "cause: rank 1 raised: SystemExit: 3"),
            ("os._exit(3)", "cause: rank 1 crashed: exit code 3"),
            (
                "os._exit(0)",
                "cause: rank 1 left the test after barrier #1 of the default group; ranks 0, 2 wait",
            ),
            ("os.kill(os.getpid(), signal.SIGKILL)", "cause: rank 1 crashed: signal SIGKILL"),
        ):
            with self.subTest(how):
                said = self.broken(how=how)
                self.assertIn(cause, said)
                if "_exit" not in how and "kill" not in how:
                    self.assertIn("in broken", said)
                    self.assertIn("wait in all_reduce", said)

    def test_hang(self) -> None:
        """After --timeout the rank that is elsewhere is the cause, with its stack.

        The timeout counts the import of torch, which takes ten times as long on a busy machine.
        """
        said = self.broken("--timeout", "20", how="threading.Event().wait()")
        self.assertRegex(
            said, r"cause: rank 1 never came to all_reduce #2: it is at broken\.py:\d+ in broken"
        )
        self.assertIn("ranks 0, 2 wait in all_reduce", said)

    def test_hidden_output(self) -> None:
        """A failed rank's last lines are in the report where they were not shown."""
        said = self.broken("--output", "capture", how="print('last words'); raise OSError(5)")
        self.assertIn("output of rank 1", said)
        self.assertIn("last words", said)
        self.assertNotIn("output of rank 1", self.broken(how="print('last words'); raise OSError(5)"))

    def test_syntax_error(self) -> None:
        """A script that does not compile is the same failure on every rank, told once."""
        self.write("syntax.py", "def")
        run = self.play("-n", "2", "syntax.py")
        self.assertEqual(run.code, 1)
        self.assertIn("(the same on ranks 0, 1)", run.err)
        self.assertNotIn("harness/run", run.out + run.err)


def passed(rank: int, **more: object) -> RankOutcome:
    """Returns the outcome of a rank that passed."""
    return RankOutcome(rank, Status.PASSED, exit_code=0, order=rank, **more)  # type: ignore[arg-type]  # fields


def gone(rank: int, code: int) -> RankOutcome:
    """Returns the outcome of a rank that ended without a report."""
    return RankOutcome(rank, Status.CRASHED, exit_code=code, order=0)


def raised(rank: int, message: str, order: int = 1) -> RankOutcome:
    """Returns the outcome of a rank that raised."""
    return RankOutcome(rank, Status.ERROR, ErrorInfo("RuntimeError", message, ""), order=order)


class VerdictTest(unittest.TestCase):
    """What outcomes of ranks come to."""

    def test_table(self) -> None:
        """A rank that left with exit code 0 is a cause only where somebody missed it."""
        late = RankOutcome(1, Status.TIMED_OUT, order=1)
        for outcomes, status, root, code in (
            ([passed(0), passed(1)], Status.PASSED, None, 0),
            ([gone(0, 0), passed(1)], Status.PASSED, None, 0),
            ([passed(0), gone(1, 0)], Status.PASSED, None, 0),
            ([gone(0, 0), gone(1, 0)], Status.PASSED, None, 0),
            ([gone(0, 3), passed(1)], Status.CRASHED, 0, 1),
            ([gone(0, -9), gone(1, 0)], Status.CRASHED, 0, 1),
            ([gone(0, 0), raised(1, "Connection closed by peer")], Status.CRASHED, 0, 1),
            ([gone(0, 0), late], Status.CRASHED, 0, 1),
            ([gone(0, 0), raised(1, "own fault")], Status.ERROR, 1, 1),
            ([passed(0), raised(1, "Connection closed by peer")], Status.ERROR, 1, 1),
            ([passed(0), late], Status.TIMED_OUT, 1, 1),
        ):
            with self.subTest(outcomes):
                result = JobResult(tuple(outcomes))
                outcome = verdict(result)
                self.assertEqual((outcome.status, outcome.root_cause), (status, root))
                self.assertEqual(exit_code(result, outcome), code)

    def test_interrupted(self) -> None:
        """A run that was interrupted has no cause, whatever its ranks say."""
        result = JobResult((passed(0), raised(1, "x")), interrupted=True, leaked=("pid 5",))
        outcome = verdict(result)
        self.assertEqual((outcome.status, outcome.root_cause), (Status.ENDED, None))
        self.assertEqual(exit_code(result, outcome), 130)
        self.assertRegex(outcome.warnings[0], re.escape("pid 5"))


if __name__ == "__main__":
    unittest.main()
