"""The rpc tests of torch's wheel, on its TensorPipe agent and on the one that loses and delays messages."""

# mypy: ignore-errors
# Untyped, like the upstream files for which it stands.
from torch.testing._internal.common_utils import run_tests
from torch.testing._internal.distributed.rpc.faulty_rpc_agent_test_fixture import FaultyRpcAgentTestFixture
from torch.testing._internal.distributed.rpc.tensorpipe_rpc_agent_test_fixture import (
    TensorPipeRpcAgentTestFixture,
)
from torch.testing._internal.distributed.rpc_utils import (
    FAULTY_AGENT_TESTS,
    GENERIC_TESTS,
    TENSORPIPE_TESTS,
    generate_tests,
)

for _prefix, _agent, _tests in (
    ("TensorPipe", TensorPipeRpcAgentTestFixture, GENERIC_TESTS + TENSORPIPE_TESTS),
    ("Faulty", FaultyRpcAgentTestFixture, FAULTY_AGENT_TESTS),
):
    globals().update(generate_tests(_prefix, _agent, _tests, __name__))


if __name__ == "__main__":
    run_tests()
