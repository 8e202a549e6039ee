"""Which tests run: from names, files, shards and what a change affects to the tests of a run, ``Found``."""
