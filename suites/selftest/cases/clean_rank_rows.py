"""What a process of tests may have made, as rows for ``test_multiprocess_clean_ranks``.

Each is code, and an expression by which a process tells whether what the code made is there.
"""

from __future__ import annotations

from typing import NamedTuple

from harness.releases import torch_at_least

# Where torch keeps the settings of its config modules.
CONFIG = "context variables" if torch_at_least("2.12") else "settings in torch's config modules"


class Row(NamedTuple):
    """Something that code of a process of tests makes, and an expression that tells whether it is there.

    ``detected`` is the name by which the process is then not forked; "" for what a fork drops.
    """

    make: str
    ask: str
    detected: str = ""


DROPPED = (
    Row("warnings.simplefilter('error')", "[str(each) for each in warnings.filters]"),
    Row(
        "warnings.catch_warnings(record=True).__enter__()", "hasattr(warnings._showwarnmsg_impl, '__self__')"
    ),
    # Behind that row, which puts Python's own back. What a rank has there calls what was there before.
    Row(
        "warnings.showwarning = print",
        "print in (w := warnings.showwarning, *(cell.cell_contents for cell in "
        "getattr(w, '__closure__', None) or ()))",
    ),
    Row("logging.root.addHandler(logging.FileHandler('made.log'))", "logging.root.handlers"),
    Row("logging.getLogger('mine').setLevel(5)", "logging.getLogger('mine').level"),
    Row("logging.disable(40)", "logging.root.manager.disable"),
    Row("sys.excepthook = print", "sys.excepthook is print"),  # 3.10: exceptiongroup has its own
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
    Row("setattr(tempfile, 'tempdir', '/var/tmp')", "tempfile.gettempdir()"),
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
        CONFIG,
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
    Row("make_group() or dist.new_group([0])", "len(dist.distributed_c10d._world.pg_map)", "process groups"),
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
        CONFIG,
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
