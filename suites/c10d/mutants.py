"""Faults that this suite is to notice; see ``suites/planting.py``."""

from suites.planting import Mutant, replacing

C10D = "torch.distributed.distributed_c10d"


def _nothing(original, tensor, *args, **kwargs):
    return None


MUTANTS: tuple[Mutant, ...] = (
    replacing(
        "all_reduce_is_identity",
        "all_reduce leaves every rank its own tensor",
        (f"{C10D}:all_reduce", "torch.distributed:all_reduce"),
        _nothing,
    ),
)
SURVIVORS: dict[str, dict[str, str]] = {}
