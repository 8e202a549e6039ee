"""A project's own configuration: ``torch-harness.toml``, or ``[tool.torch-harness]`` in ``pyproject.toml``.

``document`` finds and reads the file, ``keys`` has the names that may stand in it, ``configuration`` makes
the value that a run works with, ``override`` what it says of single tests, ``variables`` the environment
variables that it stands for and those that nobody knows. Nothing here imports torch or the runner.
"""
