"""What a backend or device can do: the cells that tests try, the matrix of a run, and how two runs differ.

``cells`` is what a test says and each rank records; ``matrix`` makes states of it; ``document`` is the file
``conformance.json``, of which ``grids`` and ``page`` make HTML and Markdown, and ``reporter`` writes all;
``differences`` compares two of them, and ``cli`` is the command for it; ``known`` is how known failures of a
target change verdicts.

::

    from harness.conformance import cell

    with cell("all_reduce", dtype="float32", reduction="sum", way="async"):
        ...
"""

from harness.conformance.cells import cell as cell
from harness.conformance.cells import declared_or_recorded as declared_or_recorded
from harness.conformance.cells import trial as trial
