"""Conformance of sharded training under the compiler: FSDP1 and FSDP2 beside one process that shards nothing."""
