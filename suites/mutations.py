"""What reviewers found out about the mutants that ``tools/mutate.py`` makes of torch's source."""

from __future__ import annotations

# Mutants that nothing can notice, as the tool names them, each with the reason.
EQUIVALENT: dict[str, str] = {
    "torch/distributed/fsdp/_unshard_param_utils.py _unshard_fsdp_state_params: "
    "offload_to_cpu and handle.uses_sharded_strategy => offload_to_cpu": (
        "the arguments are checked first, and offloading what is not sharded is refused there"
    ),
}
