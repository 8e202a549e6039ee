"""A directory of ``PYTHONPATH`` while tests are recorded: Python imports ``sitecustomize`` from it."""
