"""Settings of inductor for suites: what is compiled depends on nothing that another test or rank has left."""

from __future__ import annotations

import torch._functorch.config
import torch._inductor.config
from torch._inductor import cpu_vec_isa

from harness import preload_compiler

preload_compiler(inductor=True)  # before ranks are forked, which would each make inductor's patterns


def settle() -> None:
    """Set inductor up for a test; for a place where the settings are put back (``clean_compiler``).

    A graph in the cache is found by what came into inductor or AOTAutograd, and stands in for what a changed
    one makes of it now: these two caches are off. Objects of compiled C++ are found by their source text and
    the compiler's command line; whoever finds one would have made the same, so ranks and tests share them.

    Also off: a pool of compiler processes for each rank, and the vector instructions, whose headers take the
    compiler longer, and which each process would first try out on it.
    """
    torch._inductor.config.fx_graph_cache = False
    torch._functorch.config.enable_autograd_cache = False
    torch._inductor.config.compile_threads = 1
    _set_vectors(False)


def allow_vectors() -> None:
    """After ``settle``: let inductor use vector instructions after all, for kernels that need them.

    Those that the processor says it has, without a trial of each on the compiler: that takes ten seconds.
    """
    _set_vectors(True)


def _set_vectors(ok: bool | None) -> None:
    torch._inductor.config.cpp.vec_isa_ok = ok
    cpu_vec_isa.valid_vec_isa_list.cache_clear()  # it would stay what the first test of the process was told
