"""Outcomes and stacks as real ranks produce them, for the self-tests of harness.report."""

from __future__ import annotations

from harness.communication_call import Call, Signature
from harness.outcomes import ErrorInfo, RankOutcome, Status

TORCH = "/opt/venv/lib/python3.11/site-packages/torch/distributed"
TEST_ID = "suites.c10d.test_sum.SumTest.test_sum"
TRACEBACK = """Traceback (most recent call last):
  File "/home/me/suite/test_sum.py", line 19, in test_sum
    self.assertEqual(total, 4)
AssertionError: 3 != 4
"""
ASSERTION = ErrorInfo("AssertionError", "3 != 4", TRACEBACK, is_assertion=True)
LOST_PEER = ErrorInfo(
    "RuntimeError",
    "[gloo] Connection closed by peer [127.0.0.1]:1",
    'Traceback (most recent call last):\n  File "/home/me/suite/test_sum.py", line 21, in test_sum\n'
    "    dist.all_reduce(x)\nRuntimeError: [gloo] Connection closed by peer [127.0.0.1]:1\n",
)


def stack(function: str, line: int, *, file: str = f"{TORCH}/distributed_c10d.py") -> str:
    """A faulthandler dump whose main thread is in ``function``, called from line ``line`` of the test."""
    return (
        "Thread 0x00007fc9f18146c0 (most recent call first):\n"
        '  File "/usr/lib/python3.11/threading.py", line 331 in wait\n'
        "\n"
        "Current thread 0x00007fca13877b80 (most recent call first):\n"
        f'  File "{file}", line 3252 in {function}\n'
        f'  File "{TORCH}/c10d_logger.py", line 83 in wrapper\n'
        f'  File "/home/me/suite/test_sum.py", line {line} in test_sum\n'
        '  File "/usr/lib/python3.11/unittest/case.py", line 650 in run\n'
    )


def call(operation: str, sequence: int, *, back: bool = False, group: str = "0") -> Call:
    """A collective; the rank has returned from it only with ``back``."""
    return Call(Signature(operation, group), sequence, sequence, 1.0, ended_s=2.0 if back else None)


HISTORY = tuple(call("all_reduce", n, back=True) for n in range(1, 5))


def waiting(rank: int, operation: str = "all_reduce", *, status: Status = Status.ENDED) -> RankOutcome:
    """A rank that hangs in its fifth collective."""
    line = 23 if operation == "broadcast" else 21
    return RankOutcome(
        rank,
        status,
        calls=(*HISTORY, call(operation, 5)),
        stack=stack(operation, line),
        order=10 + rank,
        log=f"/tmp/run/rank{rank}.log",
        duration_s=0.4,
    )


def failing(rank: int, *, order: int = 0, error: ErrorInfo = ASSERTION) -> RankOutcome:
    """A rank that raised after its fourth collective."""
    status = Status.FAILED if error.is_assertion else Status.ERROR
    log = f"/tmp/run/rank{rank}.log"
    return RankOutcome(rank, status, error, calls=HISTORY, order=order, log=log, duration_s=0.1)
