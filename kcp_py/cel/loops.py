"""Comprehensions: the macros' own become loops that keep nothing but what they need.

Each kind of loop writes its body, and returns the expression of the result, the statements before the loop, and one behind it that is
needed where the loop can end early.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from kcp_py.cel import costs, runtime
from kcp_py.cel.branches import may_fail
from kcp_py.cel.emission import KEYS
from kcp_py.cel.syntax import Constant

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcp_py.cel.emission import Emission
    from kcp_py.cel.syntax import Comprehension
    from kcp_py.cel.types import Type

__all__ = ["emit_comprehension"]

_Loop: TypeAlias = "tuple[str, list[str], str]"


def emit_comprehension(code: Emission, node: Comprehension) -> str:
    """A fold; the macros' own are loops that keep nothing but what they need."""
    if node.macro is None or (isinstance(node.loop_condition, Constant) and node.loop_condition.value is False):
        return _binding(code, node)
    walked, kind = code.emit(node.iter_range), code.types[node.iter_range.id]
    items = code.local()
    code.line(f"{items} = {_walk(code, node, kind, walked)}")
    outer, code.cost = code.cost, 0
    shadowed = dict(code.scope)
    target = _targets(code, node)
    lines, code.lines = code.lines, []
    code.indent += 1
    code.blocks += 2
    result, body, early = _LOOPS[node.macro.function](code, node)
    code.indent -= 1
    code.blocks -= 2
    written, code.lines = code.lines, lines
    per_step, code.cost = code.cost, outer
    code.scope = shadowed
    units = max(per_step + costs.step_cost(node), 1)
    code.line(f"B.charge({units} * len({items}))")
    for line in body:
        code.line(line)
    iterator = code.local() if early else items
    if early:
        code.line(f"{iterator} = iter({items})")
    code.line(f"for {target} in {iterator}:")
    code.lines.extend(written)
    if early:
        code.line(f"B.left += {units} * {iterator}.__length_hint__()")
        code.line(early)
    kept = costs.kept_cost(node)
    if kept:
        code.line(f"B.charge({kept} * len({result}))")
    return result


def _walk(code: Emission, node: Comprehension, kind: Type, walked: str) -> str:
    """What the loop goes over: elements or keys, or pairs for two variables."""
    if node.iter_var2:
        return f"{code.constant(runtime.pairs)}({walked})"
    if kind.kind == "list":
        return walked
    if kind.kind == "map" and kind.key.kind in KEYS:
        return walked
    return f"{code.constant(runtime.elements)}({walked})"


def _targets(code: Emission, node: Comprehension) -> str:
    """The loop's variables, now in scope."""
    names = [node.iter_var, node.iter_var2] if node.iter_var2 else [node.iter_var]
    for name in names:
        code.scope[name] = code.local()
    return ", ".join(code.scope[name] for name in names)


def _binding(code: Emission, node: Comprehension) -> str:
    """A fold that never steps gives its first value a name (`optMap`)."""
    name = code.local()
    code.line(f"{name} = {code.emit(node.accu_init)}")
    shadowed = dict(code.scope)
    code.scope[node.accu_var] = name
    text = code.emit(node.result)
    code.scope = shadowed
    return text


def _loop_all(code: Emission, node: Comprehension) -> _Loop:
    """`all` and `exists`: the first element that decides ends the loop; errors wait for one that does."""
    assert node.macro is not None
    universal = node.macro.function == "all"
    result, error = code.local(), code.local()
    lines, text = code.detached_truth(node.macro.args[-1])
    decided = f"if not {text}: {result} = False; break" if universal else f"if {text}: {result} = True; break"
    if lines or may_fail(code, node.macro.args[-1]):
        with code.block("try:"):
            code.put(lines)
            code.line(decided)
        with code.block("except ERRORS as failure:"):
            code.line(f"{error} = failure")
    else:
        code.line(decided)
    undecided = f"if {error} is not None and {result} is {universal}: raise {error}"
    return result, [f"{result} = {universal}; {error} = None"], undecided


def _loop_one(code: Emission, node: Comprehension) -> _Loop:
    """`exists_one` looks at every element."""
    assert node.macro is not None
    count = code.local()
    test = code.emit_truth(node.macro.args[-1])
    code.line(f"if {test}: {count} += 1")
    return f"({count} == 1)", [f"{count} = 0"], ""


def _loop_list(code: Emission, node: Comprehension) -> _Loop:
    """`map`, `filter`, `transformList`."""
    assert node.macro is not None
    result = code.local()
    arguments = node.macro.args[2:] if node.iter_var2 else node.macro.args[1:]
    is_filter = node.macro.function == "filter"
    if is_filter:
        test = code.emit_truth(arguments[0])
        code.line(f"if {test}: {result}.append({code.scope[node.iter_var]})")
    elif len(arguments) > 1:
        with code.block(f"if {code.emit_truth(arguments[0])}:"):
            code.line(f"{result}.append({code.emit(arguments[1])})")
    else:
        code.line(f"{result}.append({code.emit(arguments[0])})")
    return result, [f"{result} = []"], ""


def _loop_map(code: Emission, node: Comprehension) -> _Loop:
    """`transformMap` keeps the keys, `transformMapEntry` makes entries."""
    assert node.macro is not None
    result = code.local()
    *conditions, transform = node.macro.args[2:]
    entry = node.macro.function == "transformMapEntry"

    def insert() -> None:
        value = code.emit(transform)
        key = "" if entry else f"{code.scope[node.iter_var]}, "
        code.line(f"{code.constant(runtime.insert_entries if entry else runtime.insert)}({result}, {key}{value})")

    if conditions:
        with code.block(f"if {code.emit_truth(conditions[0])}:"):
            insert()
    else:
        insert()
    return result, [f"{result} = {{}}"], ""


_LOOPS: Final[dict[str, Callable[[Emission, Comprehension], _Loop]]] = {
    "all": _loop_all,
    "exists": _loop_all,
    "exists_one": _loop_one,
    "existsOne": _loop_one,
    "map": _loop_list,
    "filter": _loop_list,
    "transformList": _loop_list,
    "transformMap": _loop_map,
    "transformMapEntry": _loop_map,
}
