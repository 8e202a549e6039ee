"""``Fsdp1Programs``: modules, plans, options and steps of FSDP1 as a fuzzer of the hunt."""

from __future__ import annotations

from harness.fuzzing.fsdp import meshes
from harness.fuzzing.fsdp import training as of_fsdp
from harness.fuzzing.fsdp.hunted import FsdpPrograms
from harness.fuzzing.fsdp1 import training
from harness.fuzzing.fsdp1.draw import drawn
from harness.fuzzing.fsdp1.program import Fsdp1Program


class Fsdp1Programs(FsdpPrograms):
    """Modules trained with FSDP1, against one process that shards nothing."""

    name = "fsdp1"
    kind = Fsdp1Program
    program_of = staticmethod(drawn)
    check = staticmethod(training.check_fsdp1)
    modules = (meshes, of_fsdp, training)
