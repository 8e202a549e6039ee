"""A look at a run while it goes, from outside: where each rank is, read from its call log and by py-spy.

* ``processes``: which processes below one hold call logs.
* ``ranks``: the ranks that these are of, with what their logs say: ``SeenSet``, ``SeenRank``.
* ``stacks``: stacks of Python, and native ones, by py-spy.
* ``report``: the text that people read.
* ``cli``: ``torch-harness look``.

Nothing here sends a signal to a process that is looked at, stops it or asks it anything, unless native stacks
are wanted: a verdict is the same whether somebody looks or not. It imports no torch.
"""
