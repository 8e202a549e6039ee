"""What a command line asks of a run, with what the environment and an earlier run say: ``Invocation``."""
