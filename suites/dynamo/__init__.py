"""``torch.compile`` on ``DistributedDataParallel``: how DDPOptimizer splits graphs, and what they compute.

A test module a subject; ``base`` has the ground they stand on, ``models`` what they compile, ``trees`` random
models that can say what they do, ``mutants`` the faults that are this suite's business.

What the tests hold on to, whatever the subject: how many graphs the backend is given; which parameters are in
which piece, and their bytes; outputs, gradients and parameters of a step beside those of a copy that nothing
compiled or wrapped, which on several ranks is given the rows of all.

Of upstream's tests these have no counterpart here. ``TestMultiGPU`` (eight) and ``TestMultiGPUDevice`` (one)
are about one process that moves between two accelerators: switching devices, streams, guards on a device's
index. ``test_multiproc_autotune`` and its form with dynamic shapes have inductor measure an accelerator's
kernels on several ranks. None of it is about DDP, and a machine without two accelerators runs nothing of it.
"""
