"""Code that is not always run: `&&`, `||`, `?:`, and the alternatives of optionals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kcp_py.cel import operators, runtime
from kcp_py.cel.syntax import Call, Constant, Identifier, Select
from kcp_py.cel.values import NONE

if TYPE_CHECKING:
    from kcp_py.cel.emission import Emission
    from kcp_py.cel.syntax import Expression

__all__ = ["emit_alternative", "emit_conditional", "emit_junction", "may_fail"]

# Units that are charged together in advance rather than separately.
_WORTH_A_CHARGE: Final = 12


def emit_junction(code: Emission, node: Call) -> str:
    """`&&` and `||`: one side may be in error where the other decides (cel-spec, "Logical operators")."""
    conjunction = node.function == operators.AND
    neutral, test = ("True", "if {}:") if conjunction else ("False", "if not {}:")
    parts, charges = _detached_terms(code, node)
    if all(not lines for _, lines, _ in parts) and all(not may_fail(code, term) for term, _, _ in parts[:-1]):
        joint = " and " if conjunction else " or "
        return f"({joint.join(_paid(text, units) for (_, _, text), units in zip(parts, charges, strict=True))})"
    result, error = code.local(), code.local()
    code.line(f"{result} = {neutral}; {error} = None")
    for index, (term, lines, text) in enumerate(parts):
        last = index == len(parts) - 1
        if index == 0:
            _guarded(code, result, error, neutral, (lines, text), guard=not last and (bool(lines) or may_fail(code, term)))
            continue
        with code.block(test.format(result)):
            if charges[index]:
                code.line(f"B.charge({charges[index]})")
            _guarded(code, result, error, neutral, (lines, text), guard=not last and (bool(lines) or may_fail(code, term)))
    code.line(f"if {error} is not None and {result} is {neutral}: raise {error}")
    return result


def _detached_terms(code: Emission, node: Call) -> tuple[list[tuple[Expression, list[str], str]], list[int]]:
    """The terms of a junction, and the cost charged before each. A term may not be reached, so only cheap ones are charged in advance."""
    parts: list[tuple[Expression, list[str], str]] = []
    outer, units = code.cost, []
    for term in _terms(node):
        code.cost = 0
        parts.append((term, *code.detached_truth(term)))
        units.append(code.cost)
    charges, first = [0] * len(units), 0
    for index, cost in enumerate(units):
        if charges[first] + cost > _WORTH_A_CHARGE:
            first = index
        charges[first] += cost
    code.cost = outer + charges[0]
    charges[0] = 0
    return parts, charges


def _guarded(code: Emission, result: str, error: str, neutral: str, part: tuple[list[str], str], *, guard: bool) -> None:
    """One term of a junction; its error waits for the other terms."""
    lines, text = part
    if not guard:
        code.put(lines)
        code.line(f"{result} = {text}")
        return
    with code.block("try:"):
        code.put(lines)
        code.line(f"{result} = {text}")
    with code.block("except ERRORS as failure:"):
        code.line(f"{error} = failure; {result} = {neutral}")


def _terms(node: Call) -> list[Expression]:
    """The terms of a chain of one operator, however it was balanced."""
    terms: list[Expression] = []
    pending: list[Expression] = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, Call) and part.function == node.function:
            pending.extend(reversed(part.args))
        else:
            terms.append(part)
    return terms


def emit_conditional(code: Emission, node: Call) -> str:
    """`?:` evaluates one branch."""
    condition, *branches = node.args
    test = code.emit_truth(condition)
    (lines, text), (other_lines, other_text) = _branches(code, *branches)
    if not lines and not other_lines:
        return f"({text} if {test} else {other_text})"
    result = code.local()
    with code.block(f"if {test}:"):
        code.put(lines)
        code.line(f"{result} = {text}")
    with code.block("else:"):
        code.put(other_lines)
        code.line(f"{result} = {other_text}")
    return result


def _branches(code: Emission, *branches: Expression) -> list[tuple[list[str], str]]:
    """The two branches; what one costs more than the other is paid in it, or in advance where it is little."""
    outer, units = code.cost, []
    written: list[tuple[list[str], str]] = []
    for branch in branches:
        code.cost = 0
        written.append(code.detached(branch))
        units.append(code.cost)
    least, most = min(units), max(units)
    if most - least <= _WORTH_A_CHARGE:
        code.cost = outer + most
        return written
    code.cost = outer + least
    place = units.index(most)
    lines, text = written[place]
    if lines:
        depth = len(lines[0]) - len(lines[0].lstrip(" "))
        written[place] = [f"{' ' * depth}B.charge({most - least})", *lines], text
    else:
        written[place] = lines, _paid(text, most - least)
    return written


def _paid(text: str, units: int) -> str:
    """An expression that is paid for when it is reached."""
    return f"(B.charge({units}) or {text})" if units else text


def emit_alternative(code: Emission, node: Call) -> str:
    """`or` and `orValue`: the alternative is evaluated only where there is no value (cel-go `cel/library.go`, `decorateOptionalOr`)."""
    assert node.target is not None
    (alternative,) = node.args
    name = code.local()
    code.line(f"{name} = {_optional(code, node.target)}")
    before = code.cost
    lines, text = code.detached(alternative)
    code.cost = before
    value = f"{name}.value"
    if node.function == "or":
        value = name
        if code.types[alternative.id].name != "optional_type":
            text = f"{code.constant(runtime.as_optional)}({text})"
    test = f"{name} is not {code.constant(NONE)}"
    if not lines:
        return f"({value} if {test} else {text})"
    result = code.local()
    with code.block(f"if {test}:"):
        code.line(f"{result} = {value}")
    with code.block("else:"):
        code.put(lines)
        code.line(f"{result} = {text}")
    return result


def _optional(code: Emission, node: Expression) -> str:
    """The expression of something that has to be an optional."""
    text = code.emit(node)
    return text if code.types[node.id].name == "optional_type" else f"{code.constant(runtime.as_optional)}({text})"


def may_fail(code: Emission, node: Expression) -> bool:
    """Whether an inline expression can raise: only those that read nothing but constants, variables and `has` of variables cannot."""
    match node:
        case Constant() | Identifier():
            return False
        case Select():
            return (
                not node.test_only or not isinstance(node.operand, Identifier) or code.types[node.operand.id].kind not in {"object", "map"}
            )
        case Call() if node.function in {operators.NOT, operators.AND, operators.OR}:
            return any(may_fail(code, argument) for argument in node.args)
        case Call() if node.function in {operators.EQUALS, operators.NOT_EQUALS}:
            return any(may_fail(code, argument) for argument in node.args)
        case _:
            return True
