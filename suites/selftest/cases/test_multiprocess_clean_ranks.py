"""Tests what ranks see of the state that the process of their tests has, row by row of ARCHITECTURE's table.

The oracle is a new process that imports the test's module, and runs no test. Each run has a process of its
own, because what is made there would stay in this one.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path
from typing import Any, NamedTuple

from suites.selftest.pytest_plugin.runs import PytestCase
from suites.selftest.run.scripts import TREE
from suites.selftest.runner import runs


class Row(NamedTuple):
    """Something that code of a process of tests makes, and an expression that tells whether it is there.

    ``detected`` is the name by which the process is then not forked; "" for what a fork drops.
    """

    make: str
    ask: str
    detected: str = ""


DROPPED = (
    Row("warnings.simplefilter('error')", "[str(each) for each in warnings.filters]"),
    Row("warnings.showwarning = print", "warnings.showwarning.__module__"),
    Row(
        "warnings.catch_warnings(record=True).__enter__()", "hasattr(warnings._showwarnmsg_impl, '__self__')"
    ),
    Row("logging.root.addHandler(logging.FileHandler('made.log'))", "logging.root.handlers"),
    Row("logging.getLogger('mine').setLevel(5)", "logging.getLogger('mine').level"),
    Row("logging.disable(40)", "logging.root.manager.disable"),
    Row("sys.excepthook = print", "sys.excepthook.__name__"),
    Row("sys.unraisablehook = print", "sys.unraisablehook.__name__"),
    Row("threading.excepthook = print", "threading.excepthook.__name__"),
    Row("gc.disable()", "gc.isenabled()"),
    Row("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])", "signal.pthread_sigmask(0, [])"),
    Row("signal.setitimer(signal.ITIMER_REAL, 3600)", "signal.getitimer(signal.ITIMER_REAL)"),
    Row("signal.signal(signal.SIGINT, signal.SIG_IGN)", "signal.getsignal(signal.SIGINT).__name__"),
    Row("kept.append(open(__file__))", "[d for d in descriptors() if d.endswith('.py')]"),
    Row("keep_open(*socket.socketpair())", "[d for d in descriptors() if d in opened]"),
    Row(
        "keep_open(socket.create_server(('127.0.0.1', 0)))", "len([d for d in descriptors() if d in opened])"
    ),
    Row("socket.setdefaulttimeout(3)", "socket.getdefaulttimeout()"),
    Row("sys.setswitchinterval(1)", "sys.getswitchinterval()"),
    Row("setattr(sys, 'tracebacklimit', 1)", "getattr(sys, 'tracebacklimit', None)"),
    Row("setattr(tempfile, 'tempdir', '/')", "tempfile.gettempdir()"),
    Row("setattr(warnings, 'formatwarning', print)", "warnings.formatwarning.__module__"),
    Row("logging.setLoggerClass(type('Mine', (logging.Logger,), {}))", "logging.getLoggerClass()"),
    Row("logging.setLogRecordFactory(print)", "logging.getLogRecordFactory()"),
    Row(
        "asyncio.set_event_loop_policy(type('Mine', (asyncio.DefaultEventLoopPolicy,), {})())",
        "type(asyncio.get_event_loop_policy()).__name__",
    ),
    Row("tracemalloc.start(3)", "tracemalloc.is_tracing()"),
    Row("faulthandler.register(signal.SIGUSR2, open('stacks', 'w'))", "stack_signals()"),
    Row("atexit.register(tell_the_end)", "sys.stdin.read()"),
)
DEBUG_LEVEL = "torch.distributed's debug level"
DETECTED = (
    Row("torch.set_default_dtype(torch.float64)", "torch.get_default_dtype()", "default dtype"),
    Row("torch.set_default_device('meta')", "torch.ones(1).device", "default device"),
    Row("torch.set_grad_enabled(False)", "torch.is_grad_enabled()", "grad mode"),
    Row("torch.autograd.set_detect_anomaly(True)", "torch.is_anomaly_enabled()", "anomaly mode"),
    Row("torch.set_autocast_enabled('cpu', True)", "torch.is_autocast_enabled('cpu')", "CPU autocast"),
    Row("torch.set_autocast_dtype('cpu', torch.half)", "torch.get_autocast_dtype('cpu')", "autocast dtype"),
    Row(
        "torch.set_autocast_enabled('cuda', True)",
        "torch.is_autocast_enabled('cuda')",
        "accelerator autocast",
    ),
    Row("torch.set_autocast_cache_enabled(False)", "torch.is_autocast_cache_enabled()", "autocast cache"),
    Row(
        "torch.use_deterministic_algorithms(True, warn_only=True)",
        "torch.get_deterministic_debug_mode()",
        "deterministic algorithms",
    ),
    Row(
        "torch.autograd.set_multithreading_enabled(False)",
        "torch._C._is_multithreading_enabled()",
        "multithreaded backward",
    ),
    Row(
        "torch.sparse.check_sparse_tensor_invariants.enable()",
        "torch.sparse.check_sparse_tensor_invariants.is_enabled()",
        "checks of sparse tensors",
    ),
    Row(
        "torch._C._functorch._vmap_increment_nesting(3, 'error')",
        "torch._C._functorch.maybe_current_level()",
        "functorch level",
    ),
    Row(
        "torch.utils._pytree.register_pytree_node(Made, None, None)",
        "Made in torch.utils._pytree.SUPPORTED_NODES",
        "containers of pytree",
    ),
    Row(
        "torch.serialization.add_safe_globals([Made])",
        "Made in torch.serialization.get_safe_globals()",
        "what torch.load may read",
    ),
    Row(
        "torch.serialization.set_crc32_options(False)",
        "torch.serialization.get_crc32_options()",
        "context variables",
    ),
    Row(
        "torch.compiler.allow_in_graph(identity)",
        "id(identity) in torch._dynamo.trace_rules._allowed_callable_ids",
        "functions that dynamo traces otherwise",
    ),
    Row(
        "torch._dynamo.disallow_in_graph(torch.sub)",
        "id(torch.sub) in torch._dynamo.trace_rules._disallowed_callable_ids",
        "functions that dynamo traces otherwise",
    ),
    Row(
        "kept.append(torch.inference_mode()) or kept[-1].__enter__()",
        "torch.is_inference_mode_enabled()",
        "inference mode",
    ),
    Row(
        "torch.autograd.forward_ad.enter_dual_level()",
        "torch.autograd.forward_ad._current_level",
        "forward AD level",
    ),
    Row(
        "torch.autograd.graph.save_on_cpu().__enter__()",
        "torch._C._autograd._top_saved_tensors_default_hooks(True)",
        "saved-tensor hooks",
    ),
    Row("torch.set_printoptions(precision=9)", "torch._tensor_str.PRINT_OPTS.precision", "print options"),
    Row(
        "torch.overrides.BaseTorchFunctionMode().__enter__()",
        "torch._C._len_torch_function_stack()",
        "function modes",
    ),
    Row("LoggingMode().__enter__()", "torch._C._len_torch_dispatch_stack()", "dispatch modes"),
    Row(
        "torch.nn.modules.module.register_module_forward_hook(print)",
        "len(torch.nn.modules.module._global_forward_hooks)",
        "hooks of all modules",
    ),
    Row("make_group()", "dist.is_initialized()", "process groups"),
    Row(
        "torch.distributed._symmetric_memory._group_name_to_store['0'] = None",
        "torch.distributed._symmetric_memory._group_name_to_store",
        "symmetric-memory groups",
    ),
    Row(
        "torch.library.custom_op('made::here', mutates_args=())(identity)",
        "hasattr(torch.ops.made, 'here')",
        "operators of torch.library",
    ),
    Row(
        "torch._dynamo.config.recompile_limit = 3",
        "torch._dynamo.config.recompile_limit",
        "context variables",
    ),
    Row(
        "torch.compile(identity, backend='eager')(torch.ones(1))",
        "len(torch._dynamo.convert_frame.input_codes.seen)",
        "compiled functions",
    ),
    Row("make_agent()", "rpc._is_current_rpc_agent_set()", "rpc agent"),
    Row(
        "make_group() or begin_collective()",
        "torch._C._distributed_c10d._get_work_registry_size()",
        "functional collectives under way",
    ),
    Row(
        "make_group() or DeviceMesh('cpu', [0, 1]).__enter__()",
        "len(torch.distributed.device_mesh._mesh_resources.mesh_stack)",
        "device mesh stack",
    ),
    Row(
        "torch.set_float32_matmul_precision('medium')",
        "torch.get_float32_matmul_precision()",
        "float32 matmul precision",
    ),
    Row(
        "setattr(torch.backends.cudnn, 'deterministic', True)",
        "torch.backends.cudnn.deterministic",
        "switches of torch.backends",
    ),
    Row(
        "setattr(torch.backends.mkldnn.matmul, 'fp32_precision', 'bf16')",
        "torch.backends.mkldnn.matmul.fp32_precision",
        "switches of torch.backends",
    ),
    Row("torch.set_warn_always(True)", "torch.is_warn_always_enabled()", "warn-always"),
    Row(
        "setattr(torch.utils.deterministic, 'fill_uninitialized_memory', False)",
        "torch.utils.deterministic.fill_uninitialized_memory",
        "filling of new memory",
    ),
    Row(
        "torch.__future__.set_swap_module_params_on_conversion(True)",
        "torch.__future__.get_swap_module_params_on_conversion()",
        "conversion of modules",
    ),
    Row("dist.set_debug_level(dist.DebugLevel.INFO)", "dist.get_debug_level()", DEBUG_LEVEL),
    Row(
        "setattr(torch.distributed.tensor._random, '_rng_tracker', identity)",
        "torch.distributed.tensor._random._rng_tracker is None",
        "DTensor's RNG tracker",
    ),
    Row(
        "dist.Backend.register_backend('made', identity)",
        "'made' in dist.Backend.backend_list",
        "registered backends",
    ),
    Row(
        "torch.multiprocessing.set_sharing_strategy('file_system')",
        "torch.multiprocessing.get_sharing_strategy()",
        "sharing strategy",
    ),
    Row("torch._logging.set_logs(dynamo=10)", "logging.getLogger('torch._dynamo').level", "logs of torch"),
    Row(
        "torch.compiler.set_stance('force_eager')",
        "torch._dynamo.eval_frame._stance.stance",
        "stance of the compiler",
    ),
    Row("torch.set_flush_denormal(True)", "sys.float_info.min / 2", "denormal numbers"),
    Row("torch.set_num_interop_threads(3)", "torch.get_num_interop_threads()", "inter-op threads"),
    Row("signal.signal(signal.SIGUSR1, print)", "signal.getsignal(signal.SIGUSR1)", "signal handlers"),
    Row("sys.setprofile(lambda *_: None)", "sys.getprofile()", "tracing"),
    Row("sys.settrace(lambda *_: None)", "sys.gettrace()", "tracing"),
    Row("sys.setrecursionlimit(2345)", "sys.getrecursionlimit()", "recursion limit"),
    Row("decimal.getcontext().prec = 5", "decimal.getcontext().prec", "decimal's context"),
    Row("numpy.seterr(all='raise')", "numpy.geterr()", "numpy's handling of errors"),
    Row("variable.set(1)", "variable.get(0)", "context variables"),
    Row(
        "asyncio.set_event_loop(asyncio.new_event_loop())",
        "getattr(asyncio.get_event_loop_policy()._local, '_loop', None)",
        "event loop",
    ),
    Row("gc.set_threshold(9, 9, 9)", "gc.get_threshold()", "thresholds of the garbage collector"),
    Row("locale.setlocale(locale.LC_NUMERIC, 'C.UTF-8')", "locale.setlocale(locale.LC_NUMERIC)", "locale"),
)
# With these a process is not forked at all; their state has no name.
NOT_FORKED = (
    Row("threading.Thread(target=threading.Event().wait, daemon=True).start()", "threading.active_count()"),
    Row("pool.submit(identity, torch.ones(1)).result()", "[t for t in pool._threads if t.is_alive()]"),
    Row("compute_in_parallel()", "len(os.listdir('/proc/self/task')) > 3"),
    Row("setattr(torch.cuda, '_initialized', True)", "torch.cuda.is_initialized()"),
)
# What a new process that imports the module has, too, wherever it was set: it is in ranks in each case.
INHERITED = (
    Row("os.environ['MADE'] = '1'", "os.environ.get('MADE')"),
    Row("os.umask(0o77)", "os.umask(0o77)"),
    Row("resource.setrlimit(resource.RLIMIT_CORE, (0, 0))", "resource.getrlimit(resource.RLIMIT_CORE)"),
    Row("multiprocessing.set_start_method('spawn')", "multiprocessing.get_start_method()"),
    Row("sys.meta_path.append(Finder())", "[type(each).__name__ for each in sys.meta_path].count('Finder')"),
    Row("sys.path_hooks.append(identity)", "identity in sys.path_hooks"),
    Row("copyreg.pickle(Made, identity)", "Made in copyreg.dispatch_table"),
    Row("os.nice(1)", "os.nice(0)"),
    Row("kept.append(1)", "kept"),
)
# What each rank sets itself for each test, whatever the process of tests has.
SETTLED = (
    Row("random.seed(5)", "random.random()"),
    Row("numpy.random.seed(5)", "numpy.random.rand()"),
    Row("torch.manual_seed(5)", "torch.rand(1).item()"),
    Row("torch.get_rng_state() is torch.rand(7)", "torch.rand(1).item()"),
    Row("torch.set_num_threads(7)", "torch.get_num_threads()"),
    Row("setattr(sys, 'breakpointhook', print)", "sys.breakpointhook is print"),
    Row("faulthandler.disable()", "faulthandler.is_enabled()"),
    Row("setattr(sys, 'stdout', open('out', 'w'))", "sys.stdout.name"),
)

HEAD = """
    import asyncio, atexit, contextvars, copyreg, decimal, faulthandler, gc, json, locale, logging
    import multiprocessing, os, random, resource, signal, socket, sys, tempfile, threading, tracemalloc
    import unittest, warnings
    from concurrent.futures import ThreadPoolExecutor
    import numpy, torch
    import torch._dynamo, torch.autograd.forward_ad, torch.distributed as dist
    import torch.distributed._symmetric_memory, torch.distributed.rpc as rpc, torch.distributed.tensor
    from torch.distributed.device_mesh import DeviceMesh
    from torch.testing._internal.distributed.fake_pg import FakeStore
    from torch.utils._python_dispatch import TorchDispatchMode
    from harness import MultiProcessTestCase

    kept, opened = [], []
    pool = ThreadPoolExecutor(1)
    variable = contextvars.ContextVar("variable")
    warnings.filterwarnings("ignore", message="of the module")

    class LoggingMode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    class Made:
        pass

    class Finder:
        def find_spec(self, *arguments):
            return None

    def identity(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    def make_group():
        if not dist.is_initialized():
            dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)

    def make_agent():
        rpc.init_rpc(
            "alone",
            rank=0,
            world_size=1,
            rpc_backend_options=rpc.TensorPipeRpcBackendOptions(init_method=f"file://{os.path.abspath('agent')}"),
        )

    def begin_collective():
        name = dist.group.WORLD.group_name
        kept.append(torch.ops._c10d_functional.all_reduce(torch.ones(1, device="cpu"), "sum", name))

    def compute_in_parallel():
        torch.set_num_threads(4)
        torch.ones(1 << 20).add_(1)

    def keep_open(*connections):
        kept.extend(connections)
        opened.extend(os.readlink(f"/proc/self/fd/{each.fileno()}") for each in connections)

    def descriptors():
        found = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        return [os.readlink(each) for each in found if os.path.exists(each)]

    def stack_signals():
        return [each for each in (signal.SIGUSR1, signal.SIGUSR2) if faulthandler.unregister(each)]

    def tell_the_end(pid=os.getpid()):
        with open("ended", "a") as ended:
            ended.write(f"{os.getpid()}\\n")

    def make(row):
        exec(row, globals())

    def seen():
        return {ask: repr(eval(ask, globals())) for _, ask, _ in ROWS}
    """
MODULE = """
    def setUpModule():
        for row, _, _ in ROWS:
            make(row)

    class Fresh(MultiProcessTestCase):
        world_size = 2
        mode = "fresh"

        @classmethod
        def setUpClass(cls):
            os.environ["HARNESS_RANKS"] = cls.mode

        def test_as_new(self):
            self.maxDiff = None
            with open("new.json") as expected:
                self.assertEqual(seen(), json.load(expected))

    class Pooled(Fresh):
        mode = "pooled"
    """


@functools.cache
def seen_anew() -> dict[str, str]:
    """What each expression of the rows says in a new process that imports the module of a test."""
    rows = (*DROPPED, *DETECTED, *NOT_FORKED)
    program = (
        f"{textwrap.dedent(HEAD)}\nROWS = {[tuple(row) for row in rows]!r}\njson.dump(seen(), sys.stdout)"
    )
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "test_rows.py")
        file.write_text(program)
        run = subprocess.run(
            [sys.executable, str(file)],
            cwd=directory,
            env=runs.environ(Path(directory), PYTHONPATH=str(TREE)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    seen: dict[str, str] = json.loads(run.stdout)
    return seen


def setUpModule() -> None:
    """Asks the new process, at a cost that the runner sees."""
    seen_anew()


class RowsCase(PytestCase):
    """Base class of tests that write a module and compare its ranks with a new process."""

    def write_module(self, rows: tuple[Row, ...], body: str = MODULE) -> None:
        """Writes the module with its rows, and what a new process sees that imports it."""
        listed = f"ROWS = {[tuple(row) for row in rows]!r}\n"
        source = textwrap.dedent(HEAD) + listed + textwrap.dedent(body)
        (self.project / "test_rows.py").write_text(source)
        known = seen_anew()
        new = {row.ask: known[row.ask] for row in rows if row.ask in known}
        (self.project / "new.json").write_text(json.dumps(new))

    def run_python(self, *command: str, code: int = 0, **variables: str) -> str:
        """What a command prints; it has to end with ``code``."""
        run = subprocess.run(
            [sys.executable, *command],
            cwd=self.project,
            env=runs.environ(self.project, PYTHONPATH=str(TREE), **variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.assertEqual(run.returncode, code, run.stdout)
        return run.stdout


class ByUnittestTest(RowsCase):
    """What ``setUpModule`` makes, in ranks of unittest's and of the runner's."""

    def test_dropped(self) -> None:
        """A fork drops it, and calls nothing that was to be called at the end of its parent."""
        self.write_module(DROPPED)
        self.run_python("-m", "unittest", "test_rows")
        self.assertEqual(len((self.project / "ended").read_text().split()), 1)

    def test_detected(self) -> None:
        """A new process has not got it, and is where ranks begin."""
        self.write_module(DETECTED)
        self.run_python("-m", "unittest", "test_rows")

    def test_not_forked(self) -> None:
        """Threads and a device's context, of which a fork has but the memory."""
        self.write_module((INHERITED[-1], *NOT_FORKED))
        found = [clean for _, clean in self.in_forks("fork_safety.is_clean()")]
        self.assertEqual(found, [True, *(False for _ in NOT_FORKED)])
        self.write_module(NOT_FORKED[:1])
        self.run_python("-m", "unittest", "test_rows")

    def test_by_the_runner(self) -> None:
        """So it is where a worker runs ``setUpModule``."""
        for rows in (DROPPED, DETECTED):
            with self.subTest(rows[0].make):
                self.write_module(rows)
                self.run_python(str(TREE / "run_tests.py"), "test_rows.py")

    def test_inherited(self) -> None:
        """What every child process inherits is in ranks, and what the module has in its variables."""
        self.write_module(INHERITED)
        dump = "json.dump(test_rows.seen(), open('new.json', 'w'))"
        self.run_python("-c", f"import json, test_rows; test_rows.setUpModule(); {dump}")
        self.run_python("-m", "unittest", "test_rows")

    def test_settled(self) -> None:
        """A rank sets it for itself: ranks see the same where nothing was made in their parent."""
        tells = """
            def setUpModule():
                if "MAKE" in os.environ:
                    for row, _, _ in ROWS:
                        make(row)

            class Ranks(MultiProcessTestCase):
                world_size = 2

                def test_tells(self):
                    with open(f"{os.environ['TOLD']}.{self.rank}", "w") as told:
                        json.dump(seen(), told)
            """
        self.write_module(SETTLED, tells)
        for mode in ("fresh", "pooled"):
            with self.subTest(mode):
                self.run_python("-m", "unittest", "test_rows", HARNESS_RANKS=mode, TOLD="plain")
                self.run_python("-m", "unittest", "test_rows", HARNESS_RANKS=mode, TOLD="made", MAKE="1")
                for rank in (0, 1):
                    plain, made = (
                        json.loads((self.project / f"{n}.{rank}").read_text()) for n in ("plain", "made")
                    )
                    self.assertEqual(made, plain)
                    self.assertEqual(len(plain), len({row.ask for row in SETTLED}))

    def test_each_alone(self) -> None:
        """Each of those that have a new process made is found, by its name and no other's."""
        self.write_module(DETECTED)
        lines = self.in_forks("(*torch_state.made_here(), *fork_safety.IMPORTED.changed())")
        self.assertEqual(len(lines), len(DETECTED))
        beside = {
            "default device": {"function modes"},
            "functional collectives under way": {"process groups"},
            "device mesh stack": {"process groups"},
            "float32 matmul precision": {"switches of torch.backends"},
            "switches of torch.backends": {"float32 matmul precision"},  # matmul's, by another name
            "deterministic algorithms": {"deterministic warn-only", "context variables"},
            "inference mode": {"grad mode", "multithreaded backward"},
            "compiled functions": {"context variables", "operators of torch.library"},  # by dynamo's imports
        }
        for name, found in lines:
            with self.subTest(name):
                self.assertIn(name, found)
                self.assertLessEqual(set(found) - beside.get(name, set()), {name})

    def in_forks(self, ask: str) -> list[tuple[str, Any]]:
        """Each row's name, and what ``ask`` says in a fork of the module's process that has made it."""
        program = f"""
            import json, os, test_rows
            from harness.system import fork_safety, torch_state

            for row, _, name in test_rows.ROWS:
                pid = os.fork()
                if pid == 0:
                    test_rows.make(row)
                    print(json.dumps([name, {ask}]), flush=True)
                    os._exit(0)
                os.waitpid(pid, 0)
            """
        said = self.run_python("-c", textwrap.dedent(program)).splitlines()
        return [json.loads(line) for line in said if line.startswith("[")]  # torch warns of some


class ByPytestTest(RowsCase):
    """What a ``conftest.py`` makes, and pytest itself."""

    def test_pytests_own(self) -> None:
        """Ranks have neither pytest's filters of warnings nor its handlers."""
        self.write_module(DROPPED)
        (self.project / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\nlog_cli = true\n")
        run = self.pytest("-W", "error::UserWarning", "test_rows.py")
        self.assertEqual(run.counts, {"passed": 2}, run.out)

    def test_conftest(self) -> None:
        """What it makes when it is imported is not in ranks where no import of the module's has a part."""
        rows = tuple(row for row in DETECTED if row.detected in ALWAYS)
        self.write_module(rows, MODULE.replace("def setUpModule", "def never_called"))
        lines = [
            *("import asyncio, decimal, numpy, signal, sys, torch, torch.distributed as dist",),
            *("import torch.autograd.forward_ad", "from test_rows import LoggingMode, make_group"),
            *(row.make for row in rows),
        ]
        (self.project / "conftest.py").write_text("\n".join(lines) + "\n")
        run = self.pytest("test_rows.py")
        self.assertEqual(run.counts, {"passed": 2}, run.out)

    def test_logging_of_the_module(self) -> None:
        """What a rank logs and warns is in its output, though the handler was made for pytest's capture."""
        body = """
            logging.root.addHandler(logging.StreamHandler())
            logging.root.setLevel(logging.INFO)

            class Ranks(MultiProcessTestCase):
                world_size = 2

                def test_tells(self):
                    logging.info("logged by rank %d", self.rank)
                    warnings.warn(f"warned by rank {self.rank}")
            """
        self.write_module((), body)
        run = self.pytest("-rA", "test_rows.py")
        self.assertEqual(run.counts.get("passed"), 1, run.out)
        for rank in (0, 1):
            self.assertIn(f"logged by rank {rank}", run.out)
            self.assertIn(f"UserWarning: warned by rank {rank}", run.out)


# What is found whenever it was made: no import has a part in it.
ALWAYS = {
    *(
        "default dtype",
        "default device",
        "grad mode",
        "forward AD level",
        "saved-tensor hooks",
        "process groups",
    ),
    *("signal handlers", "recursion limit", "decimal's context", "numpy's handling of errors", "event loop"),
    *("print options", "dispatch modes"),
}


if __name__ == "__main__":
    unittest.main()
