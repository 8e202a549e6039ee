"""``torch-harness run``: an ordinary script on N ranks of this machine, unchanged, as torchrun starts it.

``options`` reads the command line, ``script`` finds what it names, ``launch`` starts the ranks and gives the
verdict. ``in_rank`` is what a rank does: the script runs as ``__main__`` (``main_module``), with torchrun's
environment variables (``torchrun_variables``), and the ranks meet on a port of their own (``master_port``).
"""
