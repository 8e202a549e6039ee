"""Where calls are seen that start in C++: functional collectives, and what DDP's reducer calls.

Kernels of ours stand before torch's operators under the dispatch key BackendSelect, which is there for every
device, in inference mode and below autograd, and comes right before the backend's own kernel. Such a kernel
costs ten times as much as a wrapped method, and Python's calls go through the operators of the namespace
``c10d`` as well. So only those get theirs that DDP calls, and only in a rank that uses it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from harness.communication.record.arguments import FUNCTIONAL, OPERATORS, are_real, of_operator
from harness.communication.record.recorder import key_and_arguments
from harness.communication.taps.tap_state import Taps
from harness.compiler_state import uncompiled

if TYPE_CHECKING:
    from harness.communication.record.recorder import Recorder


def tap_functional(taps: Taps) -> None:
    """Gives the functional collectives kernels that record them, and the wait for their results."""
    for name, operation in FUNCTIONAL.items():
        for form in (name, f"{name}_", f"{name}_out"):
            _add_kernels(taps, "_c10d_functional", form, functools.partial(_call_kernel, operation))
    _add_kernels(taps, "_c10d_functional", "wait_tensor", _wait_tensor_kernel)


def _call_kernel(
    operation: str,
    taps: Taps,
    recorder: Recorder,
    given: dict[str, Any],
    proceed: Callable[[], Any],
) -> Any:
    """Records a call that C++ makes, and which tensors it fills: a functional one makes its own."""
    arguments = of_operator(operation, given)
    if not are_real(arguments):
        return proceed()
    functional, group = "process_group" not in given, _group_of(given)
    if taps.records_itself(group):
        return proceed()
    token = recorder.began(group, operation, *key_and_arguments(operation, arguments), unseen=True)
    values = taps.values
    kept = values.began(token, operation, arguments, functional=functional) if values is not None else None
    taps.seen.now = True
    try:
        if taps.guard is not None:
            taps.guard(token)
        result = proceed()
    except BaseException as error:
        recorder.refused(token, group, operation, error)
        raise
    finally:
        taps.seen.now = False
    filled = result if functional else arguments.outputs or arguments.inputs
    recorder.fills(token, _addresses(filled))
    if values is not None and kept is not None:
        values.fills(kept, filled)
    return result


def _group_of(given: dict[str, Any]) -> Any:
    """The process group that an operator is given: itself, boxed, or by its name."""
    if "process_group" in given:
        return sys.modules["torch.distributed"].ProcessGroup.unbox(given["process_group"])
    named = given["group_name"]
    if not isinstance(named, str):
        return named
    return sys.modules["torch"]._C._distributed_c10d._resolve_process_group(named)


def _wait_tensor_kernel(
    taps: Taps, recorder: Recorder, given: dict[str, Any], proceed: Callable[[], Any]
) -> Any:
    if given["tensor"].is_meta or given["tensor"].is_sparse:
        return proceed()
    address = _address(given["tensor"])
    token = recorder.waits_for_tensor(address)
    try:
        found = proceed()
    except BaseException:
        if token is not None:
            recorder.ended(token, raised=True)
        raise
    if token is not None:
        recorder.ended(token)
    if taps.values is not None:
        taps.values.waited_for_tensor(address)
    return found


def _addresses(tensors: Any) -> list[int]:
    if isinstance(tensors, list | tuple):
        return [address for each in tensors for address in _addresses(each)]
    return [] if tensors.is_sparse else [_address(tensors)]


def _address(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


# -- functions around calls that C++ makes


def tap_reducer(distributed: Any, taps: Taps) -> None:
    """Gives the operators of ``c10d`` their kernels in a rank as soon as it uses what calls them in C++."""
    for name in ("Reducer", "_broadcast_coalesced", "_verify_params_across_processes"):
        original = getattr(distributed, name)

        setattr(distributed, name, _in_cpp(original, taps, waits=name != "Reducer"))
    verify = distributed._verify_params_across_processes
    distributed._verify_params_across_processes = _comparing(verify, taps)


def _in_cpp(original: Callable[..., Any], taps: Taps, *, waits: bool) -> Callable[..., Any]:
    """Wraps a function that starts calls in C++, and ``waits`` there for them."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        active = taps.active()
        recorder = active.recorder
        if recorder is None:
            return original(*args, **kwargs)
        _tap_operators(taps)
        if not waits:
            return original(*args, **kwargs)
        token = recorder.cpp_begins(original.__name__)
        try:
            found = original(*args, **kwargs)
        except BaseException:
            recorder.cpp_ended(token, raised=True)
            raise
        recorder.cpp_ended(token)
        if active.values is not None:
            active.values.left_cpp()
        return found

    return uncompiled(call)


def _comparing(original: Callable[..., Any], taps: Taps) -> Callable[..., Any]:
    """Wraps the function by which DDP compares the parameters of ranks with those of rank 0 or its own."""

    @functools.wraps(original)
    def verify(group: Any, parameters: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = taps.active().recorder
        if recorder is None:
            return original(group, parameters, *args, **kwargs)
        token = recorder.compares(group, parameters_text(parameters))
        try:
            found = original(group, parameters, *args, **kwargs)
        except BaseException:
            recorder.ended(token, raised=True)
            raise
        recorder.ended(token)
        return found

    return uncompiled(verify)


# Of so many parameters the sizes are compared, and of all others how many there are.
_MOST_PARAMETERS = 500


def parameters_text(parameters: Iterable[Any]) -> str:
    """The shapes and dtypes of parameters, apart by semicolons; of many those of the first."""
    every = list(parameters)
    told = [f"{tuple(p.shape)} {str(p.dtype).removeprefix('torch.')}" for p in every[:_MOST_PARAMETERS]]
    return "; ".join([*told, *[f"{len(every)} in all"] * (len(every) > _MOST_PARAMETERS)])


def _tap_operators(taps: Taps) -> None:
    taps.nests = taps.active().nests = True  # each method of a group calls its operator
    if "c10d" in taps.libraries:
        return
    for name, operation in OPERATORS.items():
        _add_kernels(taps, "c10d", name, functools.partial(_call_kernel, operation))


def untap_operators(taps: Taps, *, nests: bool) -> None:
    """Takes the kernels of ``c10d``'s operators back, which make each call on a group dearer.

    ``nests`` is what the taps had before. No call of such an operator may be under way.
    """
    library = taps.libraries.pop("c10d", None)
    if library is not None:
        library._destroy()
        taps.nests = nests


def tap_backward(taps: Taps) -> None:
    """Records when a backward pass runs: in its end DDP's reducer waits, in C++, for what it has started."""
    autograd: Any = sys.modules["torch.autograd"]
    graph: Any = sys.modules["torch.autograd.graph"]
    original = graph._engine_run_backward

    @functools.wraps(original)
    def run_backward(*args: Any, **kwargs: Any) -> Any:
        active = taps.active()
        recorder = active.recorder
        if recorder is None or "c10d" not in taps.libraries:
            return original(*args, **kwargs)
        token = recorder.cpp_begins("backward")
        try:
            found = original(*args, **kwargs)
        except BaseException:
            recorder.cpp_ended(token, raised=True)
            raise
        recorder.cpp_ended(token)
        if active.values is not None:
            active.values.left_cpp()
        return found

    autograd._engine_run_backward = graph._engine_run_backward = uncompiled(run_backward)


def _add_kernels(taps: Taps, namespace: str, name: str, record: Callable[..., Any]) -> None:
    """Puts ``record`` before each overload of an operator, if this version of torch has it.

    Operators are looked up by name: to list those of all namespaces takes longer than the rest.
    """
    packet = getattr(getattr(sys.modules["torch"].ops, namespace), name, None)
    for overload in () if packet is None else packet.overloads():
        _add_kernel(taps, namespace, getattr(packet, overload), record)


def _add_kernel(taps: Taps, namespace: str, operator: Any, record: Callable[..., Any]) -> None:
    """Puts ``record`` before an operator: it gets the recorder, the arguments, and how to go on."""
    torch = sys.modules["torch"]
    key = torch._C.DispatchKey.BackendSelect
    names = [argument.name for argument in operator._schema.arguments]

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        after, active = keyset.remove(key), taps.active()
        recorder = active.recorder
        if recorder is None or active.seen.now:
            return operator.redispatch(after, *args, **kwargs)
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        return record(active, recorder, given, lambda: operator.redispatch(after, *args, **kwargs))

    library = taps.libraries.get(namespace)
    if library is None:
        library = taps.libraries[namespace] = torch.library.Library(namespace, "IMPL")
    library.impl(operator, uncompiled(kernel), "BackendSelect", with_keyset=True)
