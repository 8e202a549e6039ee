"""Where calls are seen: what of torch is wrapped so that each communication call of a rank is recorded.

Calls of Python are seen at the methods of ``ProcessGroup``, below every public function, at a price of
microseconds. Functional collectives, also those of compiled graphs, and the calls of DDP's reducer start in
C++: they are seen by kernels of ours under the dispatch key BackendSelect, which is there for every device,
in inference mode and below autograd, and comes right before the backend's own kernel. Such a kernel costs
ten times as much as a wrapped method, so the operators of the namespace ``c10d``, which Python's calls go
through as well, get theirs only in a rank that uses DDP.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from harness.calls import Kind
from harness.communication.arguments import (
    FUNCTIONAL,
    METHODS,
    OPERATORS,
    Arguments,
    are_real,
    of_method,
    of_operator,
    quick_key,
    tensors_in,
)
from harness.communication.call_log import CallLog
from harness.communication.recorder import Recorder, key_and_arguments
from harness.compiler_state import uncompiled

if TYPE_CHECKING:
    from harness.communication.value_recorder import ValueRecorder

# The attribute of the first wrapped method that holds the taps.
_MARK = "__harness_taps__"


class _Seen(threading.local):
    """Whether the calling thread is in a call that is recorded already."""

    now = False


class Taps:
    """What the wrapped functions share: they call the originals only, until ``recorder`` is set."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.libraries: dict[str, Any] = {}  # by namespace; torch drops the kernels of one that is not kept
        self.layouts = False  # whether DTensor is wrapped
        self.values: ValueRecorder | None = None  # only where the values of calls are checked
        self.seen = _Seen()

    def add_kernel(self, namespace: str, name: str, record: Callable[..., Any]) -> None:
        """Puts ``record`` before an operator: it gets the recorder, the arguments, and how to go on."""
        torch = sys.modules["torch"]
        key = torch._C.DispatchKey.BackendSelect
        base, _, overload = name.partition(".")
        operator = getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")
        names = [argument.name for argument in operator._schema.arguments]

        def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            after = keyset.remove(key)
            recorder = self.recorder
            if recorder is None or self.seen.now:
                return operator.redispatch(after, *args, **kwargs)
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            return record(self, recorder, given, lambda: operator.redispatch(after, *args, **kwargs))

        library = self.libraries.get(namespace)
        if library is None:
            library = self.libraries[namespace] = torch.library.Library(namespace, "IMPL")
        library.impl(name, uncompiled(kernel), "BackendSelect", with_keyset=True)


def install(log: CallLog, *, restart: bool = True, values: Callable[[bytes], object] | None = None) -> bool:
    """Starts recording this rank's calls in its log; False where torch.distributed is not in use.

    In a rank that records already, ``restart`` makes the numbers start again, because the groups are new
    ones. ``values`` takes the records of what calls are given and give, where these are to be checked.
    """
    taps = prepare()
    if taps is None:
        return False
    taps.values = None if values is None else value_recorder(log, values)
    _tap_layouts(taps)
    if taps.recorder is None:
        taps.recorder = Recorder(log, members_of)
    elif restart:
        taps.recorder.restart()
    else:
        taps.recorder.forget_calls()
    return True


def value_recorder(log: CallLog, append: Callable[[bytes], object]) -> ValueRecorder:
    """The recorder of the values of a rank's calls; imports numpy, as nothing else here does."""
    from harness.communication.value_recorder import ValueRecorder

    return ValueRecorder(log, append)


def prepare() -> Taps | None:
    """Wraps torch's functions, unless they are wrapped; servers call this before they fork ranks.

    None where torch.distributed is not in use.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return None
    group = distributed.ProcessGroup
    earlier: Taps | None = getattr(group.allreduce, _MARK, None)
    if earlier is not None:
        return earlier
    taps = Taps()
    for owner, name, wrapper in wrappers(taps):
        setattr(owner, name, wrapper)
    setattr(group.allreduce, _MARK, taps)
    _tap_functional(taps)
    _tap_reducer(distributed, taps)
    _tap_backward(taps)
    return taps


def leave_this_thread_out() -> None:
    """Records nothing of what the calling thread does: it is one of the harness, and no rank's."""
    taps = prepare()
    if taps is not None:
        taps.seen.now = True


def wrappers(taps: Taps) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """What records the calls of Python: owners, names, and the functions to put there."""
    distributed: Any = sys.modules["torch.distributed"]
    group, work, c10d = distributed.ProcessGroup, distributed.Work, distributed.distributed_c10d
    for method, operation in METHODS.items():
        original = getattr(group, method, None)
        if original is not None:
            yield group, method, _recorded(original, method, operation, taps)
    yield work, "wait", _waiting(work.wait, taps)
    for name in _ASKING:
        if hasattr(work, name):
            yield work, name, _asking(getattr(work, name), taps, answers=name == "is_completed")
    yield c10d, "_new_process_group_helper", _making(c10d._new_process_group_helper, c10d, taps)
    for store in (getattr(distributed, name) for name in _STORES if hasattr(distributed, name)):
        for names, kind in ((_GETTERS, Kind.STORE), (_SETTERS, Kind.SETTING)):
            for name in names:
                if name in vars(store):
                    yield store, name, _store_call(getattr(store, name), f"store.{name}", kind, taps)


def members_of(group: Any) -> tuple[int, ...]:
    """The global ranks of a group in group order; () where it is not one that torch knows."""
    c10d = sys.modules["torch.distributed.distributed_c10d"]
    ranks = c10d._world.pg_group_ranks.get(group)
    return tuple(sorted(ranks, key=ranks.__getitem__)) if ranks else ()


# -- methods of ProcessGroup and Work


def _recorded(original: Callable[..., Any], method: str, operation: str, taps: Taps) -> Callable[..., Any]:
    key = quick_key(operation)

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = taps.recorder
        if recorder is None or taps.seen.now:
            return original(self, *args, **kwargs)

        def arguments() -> Arguments:
            return of_method(operation, method, args, kwargs)

        try:
            told, own_work = key(args, kwargs)
            token = recorder.began(self, operation, told, arguments, own_work)
            values = taps.values
            kept = values.began(token, operation, arguments()) if values is not None else None
        except (AttributeError, TypeError, ValueError):
            # Symbolic shapes, or arguments that are wrong: torch says in what.
            return original(self, *args, **kwargs)
        taps.seen.now = True
        try:
            work = original(self, *args, **kwargs)
        except BaseException as error:
            recorder.refused(token, self, operation, error)
            if values is not None and kept is not None:
                values.raised(kept)
            raise
        finally:
            taps.seen.now = False
        recorder.returned(token, work, own_work)
        if values is not None and kept is not None:
            values.returned(kept, work)
        if own_work and work is not None:
            recorder.watches(operation, tensors_in((*args, *kwargs.values())), arguments, work)
        return work

    return uncompiled(call)


def _waiting(original: Callable[..., Any], taps: Taps) -> Callable[..., Any]:
    @functools.wraps(original)
    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = taps.recorder
        if recorder is None:
            return original(self, *args, **kwargs)
        if args or kwargs or recorder.has_handles:
            recorder.waits(self, bool(args or kwargs))
        try:
            found = original(self, *args, **kwargs)
        except BaseException:
            recorder.waited(self, True)
            if taps.values is not None:
                taps.values.waited(self, raised=True)
            raise
        recorder.waited(self)
        if taps.values is not None:
            taps.values.waited(self)
        return found

    return uncompiled(wait)


# Methods of Work by which a test learns otherwise that a call is over, or has others wait for it.
_ASKING = ("is_completed", "get_future", "synchronize", "block_current_stream")


def _asking(original: Callable[..., Any], taps: Taps, *, answers: bool) -> Callable[..., Any]:
    @functools.wraps(original)
    def ask(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(self, *args, **kwargs)
        recorder = taps.recorder
        if recorder is not None and not taps.seen.now and (found or not answers):
            recorder.learns_of(self)
            if taps.values is not None and answers:
                taps.values.learnt_of(self)
        return found

    return uncompiled(ask)


# -- operators


def _tap_functional(taps: Taps) -> None:
    """Gives the functional collectives kernels that record them, and the wait for their results."""
    names = torch_operators("_c10d_functional")
    for name in names:
        base = name.partition(".")[0]
        operation = FUNCTIONAL.get(base.removesuffix("_").removesuffix("_out"))
        if base == "wait_tensor":
            taps.add_kernel("_c10d_functional", name, _wait_tensor_kernel)
        elif operation is not None:
            taps.add_kernel("_c10d_functional", name, functools.partial(_functional_kernel, operation))


def torch_operators(namespace: str) -> list[str]:
    """The operators of a namespace with their overloads: ``allreduce_``, ``isend.default``."""
    found = sys.modules["torch"]._C._dispatch_get_all_op_names()
    return [name.partition("::")[2] for name in found if name.partition("::")[0] == namespace]


def _functional_kernel(
    operation: str,
    taps: Taps,
    recorder: Recorder,
    given: dict[str, Any],
    proceed: Callable[[], Any],
) -> Any:
    arguments = of_operator(operation, given)
    if not are_real(arguments):
        return proceed()
    named = given["group_name"]
    group = _resolved(named) if isinstance(named, str) else named
    token = recorder.began(group, operation, *key_and_arguments(arguments), unseen=True)
    values = taps.values
    kept = values.began(token, operation, arguments, functional=True) if values is not None else None
    taps.seen.now = True
    try:
        result = proceed()
    finally:
        taps.seen.now = False
    recorder.fills(token, _addresses(result))
    if values is not None and kept is not None:
        values.fills(kept, result)
    return result


def _wait_tensor_kernel(
    taps: Taps, recorder: Recorder, given: dict[str, Any], proceed: Callable[[], Any]
) -> Any:
    if given["tensor"].is_meta or given["tensor"].is_sparse:
        return proceed()
    address = _address(given["tensor"])
    token = recorder.waits_for_tensor(address)
    try:
        found = proceed()
    finally:
        if token is not None:
            recorder.ended(token)
    if taps.values is not None:
        taps.values.waited_for_tensor(address)
    return found


def _operator_kernel(
    operation: str,
    taps: Taps,
    recorder: Recorder,
    given: dict[str, Any],
    proceed: Callable[[], Any],
) -> Any:
    arguments = of_operator(operation, given)
    if not are_real(arguments):
        return proceed()
    group = sys.modules["torch.distributed"].ProcessGroup.unbox(given["process_group"])
    token = recorder.began(group, operation, *key_and_arguments(arguments), unseen=True)
    values = taps.values
    kept = values.began(token, operation, arguments) if values is not None else None
    result = proceed()
    recorder.fills(token, _addresses(arguments.outputs or arguments.inputs))
    if values is not None and kept is not None:
        values.fills(kept, arguments.outputs or arguments.inputs)
    return result


def _resolved(name: str) -> Any:
    return sys.modules["torch"]._C._distributed_c10d._resolve_process_group(name)


def _addresses(tensors: Any) -> list[int]:
    if isinstance(tensors, list | tuple):
        return [address for each in tensors for address in _addresses(each)]
    return [] if tensors.is_sparse else [_address(tensors)]


def _address(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


# -- functions around calls that C++ makes


def _tap_reducer(distributed: Any, taps: Taps) -> None:
    """Gives the operators of ``c10d`` their kernels in a rank as soon as it uses what calls them in C++."""
    for name in ("Reducer", "_broadcast_coalesced", "_verify_params_across_processes"):
        original = getattr(distributed, name)

        setattr(distributed, name, _in_cpp(original, taps, waits=name != "Reducer"))


def _in_cpp(original: Callable[..., Any], taps: Taps, *, waits: bool) -> Callable[..., Any]:
    """Wraps a function that starts calls in C++, and ``waits`` there for them."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        recorder = taps.recorder
        if recorder is None:
            return original(*args, **kwargs)
        _tap_operators(taps)
        if not waits:
            return original(*args, **kwargs)
        token = recorder.cpp_begins(original.__name__)
        try:
            found = original(*args, **kwargs)
        finally:
            recorder.cpp_ended(token)
        if taps.values is not None:
            taps.values.left_cpp()
        return found

    return uncompiled(call)


def _tap_operators(taps: Taps) -> None:
    if "c10d" in taps.libraries:
        return
    for name in torch_operators("c10d"):
        operation = OPERATORS.get(name)
        if operation is not None:
            taps.add_kernel("c10d", name, functools.partial(_operator_kernel, operation))


def _tap_backward(taps: Taps) -> None:
    """Records when a backward pass runs: in its end DDP's reducer waits, in C++, for what it has started."""
    autograd: Any = sys.modules["torch.autograd"]
    graph: Any = sys.modules["torch.autograd.graph"]
    original = graph._engine_run_backward

    @functools.wraps(original)
    def run_backward(*args: Any, **kwargs: Any) -> Any:
        recorder = taps.recorder
        if recorder is None or "c10d" not in taps.libraries:
            return original(*args, **kwargs)
        token = recorder.cpp_begins("backward")
        try:
            found = original(*args, **kwargs)
        finally:
            recorder.cpp_ended(token)
        if taps.values is not None:
            taps.values.left_cpp()
        return found

    autograd._engine_run_backward = graph._engine_run_backward = uncompiled(run_backward)


def _tap_layouts(taps: Taps) -> None:
    """Records the placements that tensors are redistributed to, which may need no communication at all."""
    module = sys.modules.get("torch.distributed.tensor")
    if module is None or taps.layouts:
        return
    taps.layouts = True
    tensor: Any = module.DTensor
    original = tensor.redistribute

    @functools.wraps(original)
    def redistribute(
        self: Any, device_mesh: Any = None, placements: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        recorder = taps.recorder
        token = None
        if recorder is not None and placements is not None:
            mesh = device_mesh or self.device_mesh
            token = recorder.lays_out("redistribute", _members_of_mesh(mesh), str(tuple(placements)))
        try:
            return original(self, device_mesh, placements, *args, **kwargs)
        finally:
            if token is not None and recorder is not None:
                recorder.ended(token)

    tensor.redistribute = uncompiled(redistribute)
    for placement, name in ((module.Shard, "_shard_tensor"), (module.Replicate, "_replicate_tensor")):
        if name in vars(placement):
            setattr(placement, name, _distributing(getattr(placement, name), taps))


def _distributing(original: Callable[..., Any], taps: Taps) -> Callable[..., Any]:
    """Wraps the method of a placement by which ``distribute_tensor`` gives a tensor that placement."""

    @functools.wraps(original)
    def distribute(self: Any, tensor: Any, mesh: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = taps.recorder
        if recorder is not None:
            recorder.ended(recorder.lays_out("distribute_tensor", _members_of_mesh(mesh), str(self)))
        return original(self, tensor, mesh, *args, **kwargs)

    return uncompiled(distribute)


def _members_of_mesh(mesh: Any) -> tuple[int, ...]:
    return tuple(sorted(mesh.mesh.flatten().tolist()))


# -- making groups, and stores


def _making(original: Callable[..., Any], c10d: Any, taps: Taps) -> Callable[..., Any]:
    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        recorder = taps.recorder
        if recorder is None or len(args) < 6:  # torch itself gives these by position in each release
            return original(*args, **kwargs)
        group_size, _, members, _, _, group_name, *_ = args
        name = str(group_name)
        timeout = kwargs.get("timeout")
        default = not members
        token = recorder.makes_group(
            name,
            tuple(range(group_size)) if default else tuple(members),
            default=default,
            waits=default or c10d.get_rank() in members,
            timeout_s=timeout.total_seconds() if timeout is not None else None,
        )
        try:
            return original(*args, **kwargs)
        finally:
            recorder.ended(token)

    return uncompiled(make)


_STORES = ("Store", "FileStore", "HashStore", "TCPStore", "PrefixStore")
_GETTERS = ("get", "wait")
_SETTERS = ("set", "add", "append", "compare_set", "multi_set")


def _store_call(original: Callable[..., Any], operation: str, kind: Kind, taps: Taps) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = taps.recorder
        if recorder is None or taps.seen.now:
            return original(self, *args, **kwargs)
        keys = args[0] if args else kwargs.get("key", kwargs.get("keys", ""))
        shown = keys if isinstance(keys, str) else ", ".join(map(str, keys))
        given = args[1] if len(args) > 1 and kind is Kind.STORE else kwargs.get("timeout")
        timeout = given if given is not None else self.timeout
        token = recorder.uses_store(operation, shown, kind, timeout.total_seconds())
        try:
            return original(self, *args, **kwargs)
        finally:
            recorder.ended(token)

    return uncompiled(call)
