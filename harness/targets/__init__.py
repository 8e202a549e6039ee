"""What is tested: the backend and device that suites run on, and what they declare that they can do.

``target`` has ``Target``, the value that a plugin's author writes; ``builtin`` the targets that need no
plugin; ``plugin`` imports the plugin and finds its target; ``current`` says which target this process tests;
``declared`` skips what the target does not declare. Nothing here imports torch when it is imported.

::

    from harness.targets import FLOATS, INTEGERS, Capability, Target, collectives

    TARGET = Target("mine", "cpu", collectives(FLOATS | INTEGERS), frozenset({Capability.POINT_TO_POINT}))
"""

from harness.targets.current import current as current
from harness.targets.declared import UNDECLARED as UNDECLARED
from harness.targets.declared import is_undeclared as is_undeclared
from harness.targets.declared import needs as needs
from harness.targets.declared import require as require
from harness.targets.known import Known as Known
from harness.targets.target import COMPLEX as COMPLEX
from harness.targets.target import FLOATS as FLOATS
from harness.targets.target import INTEGERS as INTEGERS
from harness.targets.target import Capability as Capability
from harness.targets.target import Operation as Operation
from harness.targets.target import Target as Target
from harness.targets.target import collectives as collectives
from harness.targets.target import operations as operations
