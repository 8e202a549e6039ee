"""Checks that a graph waits for each collective before it reads the collective's result.

A collective returns before it is done. A graph that reads its result at once computes with whatever is in the
memory by then: wrong numbers, on some ranks, in some runs. Functional collectives
(``torch.ops._c10d_functional``) are traced together with their ``wait_tensor``; the plain ones
(``torch.distributed.broadcast`` and so on, ``torch.ops.c10d``) are traced without any wait by ``make_fx``.

    unwaited(module.graph)       the reads that come too early; [] for a correct graph
    insert_waits(module)       adds the missing waits to a graph of plain collectives
    strip_waits(module)        removes the waits of functional collectives, for a test that must notice
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_leaves

from harness.errors import UsageError

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

FUNCTIONAL = ("_c10d_functional", "_c10d_functional_autograd")
PLAIN = "c10d"
WAIT_TENSOR = "_c10d_functional::wait_tensor"
# Plain operators that come back with a Work and write nothing.
WRITE_NOTHING = ("c10d::barrier", "c10d::send")

# The indices that lead to a value in a node's output; empty for the output itself.
Path = tuple[int, ...]


class Unwaited(NamedTuple):
    """``reader`` uses a result of ``collective`` before a wait for it."""

    collective: Node
    reader: Node


def collectives(graph: Graph) -> list[Node]:
    """The nodes that start a collective, functional or plain, in the graph's order."""
    return [node for node in graph.nodes if _is_functional(node) or _is_plain(node)]


def waits(graph: Graph) -> list[Node]:
    """The nodes that wait: calls of ``wait_tensor``, and of ``wait`` on the Work of a plain collective."""
    return [node for node in graph.nodes if _is_wait(node)]


def unwaited(graph: Graph) -> list[Unwaited]:
    """Each use of a collective's result before a wait for it; empty for a correct graph.

    Taking a result out of a tuple does not count as a use. Returning it from the graph does, because the
    caller does not know that it has to wait. The results of a plain collective include the tensors that it
    writes to, which are those of its first argument. Source: ``torch.distributed._functional_collectives``,
    whose tracing puts a wait behind each result.
    """
    order = {node: place for place, node in enumerate(graph.nodes)}
    found: dict[Unwaited, None] = {}  # a set that keeps the order
    for collective in collectives(graph):
        uses = list(_uses(collective))
        waited = {path: node for path, node in reversed(uses) if _is_wait(node)}
        if _is_functional(collective):
            readings = [(node, waited.get(path)) for path, node in uses if not _is_wait(node)]
        else:
            wait = waited.get(_work(collective))
            readings = [(node, wait) for node in _readers_of_written(collective, uses, order)]
        early = [node for node, wait in readings if wait is None or order[node] < order[wait]]
        found.update(dict.fromkeys(Unwaited(collective, node) for node in early))
    return list(found)


def strip_waits(module: GraphModule) -> GraphModule:
    """A copy that never waits; it returns a pair: the outputs of ``module``, and the unwaited results.

    The caller has to wait for the unwaited results (``torch.ops._c10d_functional.wait_tensor``) before its
    process group is destroyed. The outputs are flat where ``module`` returns a nested structure. UsageError
    for a module without a ``wait_tensor``.
    """
    broken = copy.deepcopy(module)
    graph = broken.graph
    pending: list[Any] = []
    for node in [node for node in waits(graph) if _operator(node) == WAIT_TENSOR]:
        pending.append(node.args[0])
        node.replace_all_uses_with(node.args[0])
        graph.erase_node(node)
    if not pending:
        raise UsageError("strip_waits: the graph has no wait_tensor that could be taken out")
    output = next(iter(graph.find_nodes(op="output")))
    output.args = ((output.args[0], tuple(pending)),)
    _return_as_it_stands(graph)
    broken.recompile()
    return broken


def insert_waits(module: GraphModule) -> int:
    """Add a wait behind each plain collective that has none; returns the number of waits that were added.

    ``module`` is changed and recompiled. This is for graphs that ``make_fx`` made of
    ``torch.distributed.broadcast`` and the like, where tracing loses the call of ``wait``
    (pytorch/pytorch#84221, pytorch/pytorch#179922).
    """
    graph, added = module.graph, 0
    for collective in filter(_is_plain, list(graph.nodes)):
        work = _work(collective)
        if any(path == work and _is_wait(node) for path, node in _uses(collective)):
            continue
        node = collective
        for index in work:
            with graph.inserting_after(node):
                node = graph.call_function(operator.getitem, (node, index))
        with graph.inserting_after(node):
            graph.call_method("wait", (node,))
        added += 1
    module.recompile()
    return added


def _uses(node: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Each use of a node as (indices into its output, user); indexing is followed and is not itself a use."""
    for user in node.users:
        if user.target is operator.getitem and user.args[0] is node:
            yield from _uses(user, (*path, user.args[1]))
        else:
            yield path, user


def _work(collective: Node) -> Path:
    """The indices of the Work in a plain collective's output: it is the only output or the last one."""
    returns = collective.target._schema.returns
    return () if len(returns) == 1 else (len(returns) - 1,)


def _readers_of_written(
    collective: Node, uses: list[tuple[Path, Node]], order: dict[Node, int]
) -> Iterator[Node]:
    """The nodes that use what a plain collective wrote, through its output or through its argument."""
    work = _work(collective)
    yield from (node for path, node in uses if path != work)
    if _operator(collective) in WRITE_NOTHING:
        return
    for written in tree_leaves(collective.args[0]):
        users = [node for _, node in _uses(written)] if isinstance(written, Node) else []
        yield from (node for node in users if order[node] > order[collective])


def _return_as_it_stands(graph: Graph) -> None:
    """Make the graph return its output node's argument without the traced function's pytree structure."""
    codegen: Any = graph._codegen
    if getattr(codegen, "pytree_info", None) is not None:
        codegen.pytree_info = codegen.pytree_info._replace(out_spec=None)


def _is_functional(node: Node) -> bool:
    namespace, _, name = _operator(node).partition("::")
    # Operators whose names begin with an underscore only wrap a collective's result.
    return namespace in FUNCTIONAL and name != "wait_tensor" and not name.startswith("_")


def _is_plain(node: Node) -> bool:
    name = _operator(node)
    if name.partition("::")[0] != PLAIN:
        return False
    returns = node.target._schema.returns
    return bool(returns) and str(returns[-1].type).endswith("Work")


def _is_wait(node: Node) -> bool:
    return (node.op == "call_method" and node.target == "wait") or _operator(node) == WAIT_TENSOR


def _operator(node: Node) -> str:
    """``namespace::name`` of the operator or overload that a node calls; "" for other nodes."""
    target: Any = node.target
    if node.op != "call_function":
        return ""
    if isinstance(target, torch._ops.OpOverload):
        return str(target._schema.name)
    return str(getattr(target, "_qualified_op_name", ""))
