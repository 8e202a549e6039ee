"""``torch.compile`` on ``DistributedDataParallel``: how DDPOptimizer splits graphs, and what they compute.

A test module a subject; ``base`` has the ground they stand on, ``models`` what they compile, ``trees`` random
models that can say what they do, ``mutants`` the faults that are this suite's business.

What the tests hold on to, whatever the subject: how many graphs the backend is given; which parameters are in
which piece, and their bytes; outputs, gradients and parameters of a step beside those of a copy that nothing
compiled or wrapped, which on several ranks is given the rows of all.
"""
