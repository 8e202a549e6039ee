"""The interpreter of ``warm_python.py``: it imports modules, and then forks once for each command.

The modules are torch, and none of the tree, so that each fork imports harness for itself; or those of the
runner. A fork leaves ``serve`` and is then what a new interpreter would be that has imported them: the
command runs as ``__main__``, and the process ends by the end of ``main``, with the exit code, the threads and
the ``atexit`` functions of any. It only does not take torch apart then, which takes an interpreter half a
second.

With ``children`` as its second argument, the Python interpreters that a command starts are forks of it, with
the modules that the server had and none that the command has imported. What the command has changed in torch
and in the standard library stays. With ``first-child`` the first of them is a fork of the server, made before
the command runs: a run's zygote, which has nothing of what its controller did.
"""
