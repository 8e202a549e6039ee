"""The agent: the process of a run on each host, which starts its ranks: ``python -m harness.agent``."""
