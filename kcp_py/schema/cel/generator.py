"""Checked tree -> Python source -> a function. Nothing of an expression's text reaches the source but literals, through `repr`.

The shape of the source: one function with the budget and the variables as its parameters; whatever needs a statement (loops, operators that
absorb errors) is written before the expression that uses its result. Python's own errors stand for CEL's where they are as good: a
`KeyError` is "no such key", a `TypeError` or `AttributeError` "no such overload".

Cost is charged in advance: once for the parts of a function or of a loop's body that have constant cost, times the elements of the list
that is walked, and for each call whose cost depends on its arguments. A loop that ends early gives back what it did not use.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from kcp_py.schema.cel import costs, operators, runtime
from kcp_py.schema.cel.adaptation import adapter
from kcp_py.schema.cel.dispatch import dispatcher
from kcp_py.schema.cel.equality import equal, equality_for, is_exact
from kcp_py.schema.cel.errors import too_deep
from kcp_py.schema.cel.runtime import ERRORS
from kcp_py.schema.cel.syntax import (
    Call,
    Comprehension,
    Constant,
    Identifier,
    ListLiteral,
    MapLiteral,
    Select,
    StructLiteral,
)
from kcp_py.schema.cel.values import NONE, TypeValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kcp_py.schema.cel.checked import Checked
    from kcp_py.schema.cel.declarations import Overload
    from kcp_py.schema.cel.syntax import Expression
    from kcp_py.schema.cel.types import Type

__all__ = ["generate"]

# Python reads at most 200 parentheses and 20 loops or tries inside one another.
_DEEPEST_EXPRESSION: Final = 30
_DEEPEST_BLOCK: Final = 12
_DEEPEST_INDENT: Final = 40
_LONGEST_TEXT: Final = 60
# Units that are rather charged in vain than separately.
_WORTH_A_CHARGE: Final = 12
_UNKNOWN: Final = frozenset({"dyn", "error", "parameter"})
_KEYS: Final = frozenset({"string", "int", "uint"})

# Calls that are one Python expression when the types of their arguments are known. In `{0}` only names, literals and parenthesised or
# subscripted expressions are put.
_INLINE: Final = {
    **{
        f"{name}_{kind}": f"({{0}} {symbol} {{1}})"
        for name, symbol in (("less", "<"), ("less_equals", "<="), ("greater", ">"), ("greater_equals", ">="))
        for kind in (
            *("bool", "int64", "uint64", "double", "string", "bytes", "timestamp", "duration"),
            *(f"{one}_{other}" for one in ("int64", "uint64", "double") for other in ("int64", "uint64", "double") if one != other),
        )
    },
    **{name: "len({0})" for kind in ("string", "bytes", "list", "map") for name in (f"size_{kind}", f"{kind}_size")},
    "starts_with_string": "{0}.startswith({1})",
    "ends_with_string": "{0}.endswith({1})",
    "contains_string": "({1} in {0})",
    "logical_not": "(not {0})",
    "to_dyn": "{0}",
}


def generate(checked: Checked, variables: Sequence[str]) -> Callable[..., object]:
    """The function that evaluates an expression.

    Args:
        checked: the expression.
        variables: the names of the function's parameters behind the budget, in order.

    Returns:
        (budget, *values) -> value. Raises `EvaluationError` or one of `ERRORS`, and `CostExceededError`.

    Raises:
        CompileError: the expression is nested deeper than the caller's stack leaves room for.
    """
    try:
        return _Generator(checked).function(variables)
    except RecursionError as error:
        raise too_deep(checked.text) from error


class _Generator:
    """One run over one checked expression."""

    def __init__(self, checked: Checked) -> None:
        """Begin with an empty body."""
        self._checked = checked
        self._types = checked.types
        self._globals: dict[str, object] = {"ERRORS": ERRORS, "charged": runtime.charged}
        self._type_values: dict[str, TypeValue] = {}
        self._constants: dict[int, tuple[str, object]] = {}
        self._lines: list[str] = []
        self._indent = 1
        self._blocks = 0
        self._counter = 0
        self._scope: dict[str, str] = {}
        self._functions: list[str] = []
        self._cost = 0

    def function(self, variables: Sequence[str]) -> Callable[..., object]:
        """Write, compile and return it."""
        for name in variables:
            self._scope[name] = self._local()
            adapt = adapter(self._checked.environment.variables[name])
            if adapt is not None:
                self._line(f"{self._scope[name]} = {self._constant(adapt)}({self._scope[name]})")
        parameters = ", ".join(["B", *(self._scope[name] for name in variables)])
        result = self._emit(self._checked.root)
        charge = [f" B.charge({self._cost})"] if self._cost else []
        source = "\n".join([*self._functions, f"def expression({parameters}):", *charge, *self._lines, f" return {result}"])
        names = dict(self._globals)
        exec(compile(source, "<cel>", "exec"), names)  # noqa: S102 -- the source is made here, of names and literals only
        function: Callable[..., object] = names["expression"]  # type: ignore[assignment]
        return function

    # What is written.

    def _local(self) -> str:
        """A new name."""
        self._counter += 1
        return f"v{self._counter}"

    def _line(self, text: str) -> None:
        """One statement."""
        self._lines.append(" " * self._indent + text)

    @contextmanager
    def _block(self, head: str) -> Iterator[None]:
        """A compound statement around what is written meanwhile."""
        self._line(head)
        counts = head.startswith(("for", "try", "except"))
        self._indent += 1
        self._blocks += counts
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self._line("pass")
        self._indent -= 1
        self._blocks -= counts

    def _constant(self, value: object) -> str:
        """A name for a value that source cannot spell."""
        known = self._constants.get(id(value))
        if known is None:
            known = (f"k{len(self._constants)}", value)
            self._constants[id(value)] = known
            self._globals[known[0]] = value
        return known[0]

    def _literal(self, value: object) -> str:
        """A literal's spelling."""
        if value is None or type(value) in {bool, int} or (isinstance(value, str) and len(value) < _LONGEST_TEXT):
            return f"({value!r})" if type(value) is int and value < 0 else repr(value)
        return self._constant(value)

    def _spilled(self, text: str) -> str:
        """An expression, through a local where it has become deep."""
        if text.count("(") + text.count("[") < _DEEPEST_EXPRESSION:
            return text
        name = self._local()
        self._line(f"{name} = {text}")
        return name

    def _apart(self, node: Expression) -> tuple[list[str], str]:
        """The statements that a node needs, not yet written, and its expression."""
        lines, self._lines = self._lines, []
        # They will stand in an `if` and a `try` of whoever asked.
        self._indent += 2
        self._blocks += 1
        text = self._emit(node)
        self._indent -= 2
        self._blocks -= 1
        written, self._lines = self._lines, lines
        return written, text

    # What is read.

    def _emit(self, node: Expression) -> str:
        """Write what a node needs; returns the expression of its value."""
        if (self._blocks >= _DEEPEST_BLOCK or self._indent >= _DEEPEST_INDENT) and not isinstance(node, Constant | Identifier | Select):
            return self._emit_outlined(node)
        self._cost += costs.node_cost(node)
        return self._spilled(_EMITTERS[type(node)](self, node))

    def emit_constant(self, node: Constant) -> str:
        """A literal."""
        return self._literal(node.value)

    def emit_identifier(self, node: Identifier) -> str:
        """A variable or a type."""
        return self._name(self._checked.names.get(node.id, node.name))

    def _name(self, name: str) -> str:
        """A local, or the value of a type's name."""
        local = self._scope.get(name)
        if local is not None:
            return local
        return self._constant(self._type_values.setdefault(name, TypeValue(self._checked.environment.types[name])))

    def emit_select(self, node: Select) -> str:
        """A field of a dict; of a declared object its key, which may be spelled otherwise."""
        name = self._checked.names.get(node.id)
        if name is not None:
            return self._name(name)
        kind = self._types[node.operand.id]
        operand = self._emit(node.operand)
        if kind.name == "optional_type":
            if node.test_only:
                key, _, more = _key(kind, node.field)
                return f"{self._constant(runtime.has_optional)}({operand}, {key!r}{more})"
            return self._optional_select(kind, operand, node.field)
        if kind.kind == "object" and kind.fields is not None and node.field in kind.fields:
            field = kind.fields[node.field]
            if node.test_only:
                return f"({operand}.get({field.key!r}) is not None)" if field.nullable else f"({field.key!r} in {operand})"
            text = f"{operand}[{field.key!r}]"
            if field.nullable:
                text = f"{self._constant(runtime.select_nullable)}({operand}, {field.key!r})"
            adapt = adapter(field.type)
            if adapt is not None and field.type.kind in {"list", "map"}:
                return f"charged(B, {self._constant(costs.adaptation_cost)}, {self._constant(adapt)}, {text})"
            return text if adapt is None else f"{self._constant(adapt)}({text})"
        if kind.kind == "map":
            return f"({node.field!r} in {operand})" if node.test_only else f"{operand}[{node.field!r}]"
        return f"{self._constant(runtime.has_dynamic if node.test_only else runtime.select_dynamic)}({operand}, {node.field!r})"

    def emit_call(self, node: Call) -> str:
        """An operator or a function."""
        special = _SPECIAL.get(node.function)
        if special is not None:
            return special(self, node)
        arguments = node.args if node.target is None else (node.target, *node.args)
        overloads = self._checked.overloads[node.id]
        kinds = [self._types[argument.id] for argument in arguments]
        texts = [self._emit(argument) for argument in arguments]
        charge = costs.call_cost(overloads, arguments, kinds)
        if isinstance(charge, int):
            self._cost += charge
            return self._call(overloads, kinds, texts)
        function = self._implementation(overloads, kinds)
        return f"charged(B, {self._constant(charge)}, {function}, {', '.join(texts)})"

    def _call(self, overloads: Sequence[Overload], kinds: Sequence[Type], texts: Sequence[str]) -> str:
        """A call of constant cost."""
        if _are_known(overloads, kinds):
            (overload,) = overloads
            inline = _INLINE.get(overload.id)
            if inline is not None:
                return inline.format(*texts)
            if overload.id == "index_map" and kinds[0].key.kind in _KEYS and kinds[1].kind in _KEYS:
                return f"{texts[0]}[{texts[1]}]"
            if overload.id == "in_map" and kinds[1].key.kind in _KEYS and kinds[0].kind in _KEYS:
                return f"({texts[0]} in {texts[1]})"
        return f"{self._implementation(overloads, kinds)}({', '.join(texts)})"

    def _implementation(self, overloads: Sequence[Overload], kinds: Sequence[Type]) -> str:
        """The name of what runs a call."""
        if _are_known(overloads, kinds):
            (overload,) = overloads
            if overload.id == "add_list" and kinds[0].kind == "list" and kinds[0].list_type != "atomic":
                return self._constant(runtime.list_union(kinds[0]))
            if overload.id == "in_list" and is_exact(kinds[0]) and kinds[0] == kinds[1].element and kinds[0].kind not in {"bool", "double"}:
                return self._constant(runtime.in_list)
            return self._constant(overload.implementation)
        return self._constant(dispatcher(overloads, self._checked.environment.matches))

    def emit_equality(self, node: Call) -> str:
        """`==` and `!=`."""
        one, other = node.args
        kinds = self._types[one.id], self._types[other.id]
        texts = self._emit(one), self._emit(other)
        charge = costs.call_cost(self._checked.overloads[node.id], node.args, kinds)
        same = node.function == operators.EQUALS
        if "null" in {kind.kind for kind in kinds}:
            self._cost += charge if isinstance(charge, int) else 1
            left, right = texts if kinds[1].kind == "null" else reversed(texts)
            # Through a name: Python warns of `is` with a literal.
            name = self._local()
            return f"(({name} := {left}) is {'' if same else 'not '}{right})"
        if isinstance(charge, int):
            self._cost += charge
            if kinds[0] == kinds[1] and is_exact(kinds[0]) and is_exact(kinds[1]):
                return f"({texts[0]} {'==' if same else '!='} {texts[1]})"
            return f"({'' if same else 'not '}{self._constant(_equality(*kinds))}({', '.join(texts)}))"
        text = f"charged(B, {self._constant(charge)}, {self._constant(_equality(*kinds))}, {', '.join(texts)})"
        return text if same else f"(not {text})"

    def emit_optional_select(self, node: Call) -> str:
        """`operand.?field`."""
        operand, name = node.args
        assert isinstance(name, Constant)
        return self._optional_select(self._types[operand.id], self._emit(operand), str(name.value))

    def _optional_select(self, kind: Type, operand: str, field: str) -> str:
        """A selection that gives an optional."""
        key, adapt, more = _key(kind, field)
        if adapt is not None:
            more = f", lambda value: charged(B, {self._constant(costs.adaptation_cost)}, {self._constant(adapt)}, value){more}"
        self._cost += 1
        return f"{self._constant(runtime.optional_select)}({operand}, {key!r}{more})"

    def emit_alternative(self, node: Call) -> str:
        """`or` and `orValue`: the alternative is evaluated only where there is no value (cel-go `cel/library.go`, `decorateOptionalOr`)."""
        assert node.target is not None
        (alternative,) = node.args
        name = self._local()
        self._line(f"{name} = {self._emit_optional(node.target)}")
        before = self._cost
        lines, text = self._apart(alternative)
        self._cost = before
        value = f"{name}.value"
        if node.function == "or":
            value = name
            if self._types[alternative.id].name != "optional_type":
                text = f"{self._constant(runtime.as_optional)}({text})"
        test = f"{name} is not {self._constant(NONE)}"
        if not lines:
            return f"({value} if {test} else {text})"
        result = self._local()
        with self._block(f"if {test}:"):
            self._line(f"{result} = {value}")
        with self._block("else:"):
            self._put(lines)
            self._line(f"{result} = {text}")
        return result

    def _emit_optional(self, node: Expression) -> str:
        """The expression of something that has to be an optional."""
        text = self._emit(node)
        return text if self._types[node.id].name == "optional_type" else f"{self._constant(runtime.as_optional)}({text})"

    def emit_junction(self, node: Call) -> str:
        """`&&` and `||`: one side may be in error where the other decides (cel-spec, "Logical operators")."""
        conjunction = node.function == operators.AND
        neutral, test = ("True", "if {}:") if conjunction else ("False", "if not {}:")
        parts, charges = self._terms_apart(node)
        if all(not lines for _, lines, _ in parts) and all(not self._may_fail(term) for term, _, _ in parts[:-1]):
            joint = " and " if conjunction else " or "
            return f"({joint.join(_paid(text, units) for (_, _, text), units in zip(parts, charges, strict=True))})"
        result, error = self._local(), self._local()
        self._line(f"{result} = {neutral}; {error} = None")
        for index, (term, lines, text) in enumerate(parts):
            last = index == len(parts) - 1
            if index == 0:
                self._guarded(result, error, neutral, (lines, text), guard=not last and (bool(lines) or self._may_fail(term)))
                continue
            with self._block(test.format(result)):
                if charges[index]:
                    self._line(f"B.charge({charges[index]})")
                self._guarded(result, error, neutral, (lines, text), guard=not last and (bool(lines) or self._may_fail(term)))
        self._line(f"if {error} is not None and {result} is {neutral}: raise {error}")
        return result

    def _terms_apart(self, node: Call) -> tuple[list[tuple[Expression, list[str], str]], list[int]]:
        """The terms of a junction, and what is paid before each: a term may not be reached, so only cheap ones are paid in advance."""
        parts: list[tuple[Expression, list[str], str]] = []
        outer, units = self._cost, []
        for term in _terms(node):
            self._cost = 0
            parts.append((term, *self._apart_truth(term)))
            units.append(self._cost)
        charges, first = [0] * len(units), 0
        for index, cost in enumerate(units):
            if charges[first] + cost > _WORTH_A_CHARGE:
                first = index
            charges[first] += cost
        self._cost = outer + charges[0]
        charges[0] = 0
        return parts, charges

    def _guarded(self, result: str, error: str, neutral: str, part: tuple[list[str], str], *, guard: bool) -> None:
        """One term of a junction; its error waits for the other terms."""
        lines, text = part
        if not guard:
            self._put(lines)
            self._line(f"{result} = {text}")
            return
        with self._block("try:"):
            self._put(lines)
            self._line(f"{result} = {text}")
        with self._block("except ERRORS as failure:"):
            self._line(f"{error} = failure; {result} = {neutral}")

    def _put(self, lines: Sequence[str]) -> None:
        """Statements that were written apart, at the present depth."""
        if lines:
            shift = self._indent - (len(lines[0]) - len(lines[0].lstrip(" ")))
            self._lines.extend(" " * shift + line if shift >= 0 else line[-shift:] for line in lines)

    def _apart_truth(self, node: Expression) -> tuple[list[str], str]:
        """As `_apart`, of something that has to be a bool."""
        lines, text = self._apart(node)
        return lines, text if self._types[node.id].kind == "bool" else f"{self._constant(runtime.truth)}({text})"

    def _emit_truth(self, node: Expression) -> str:
        """The expression of something that has to be a bool."""
        text = self._emit(node)
        return text if self._types[node.id].kind == "bool" else f"{self._constant(runtime.truth)}({text})"

    def emit_conditional(self, node: Call) -> str:
        """`?:` evaluates one branch."""
        condition, *branches = node.args
        test = self._emit_truth(condition)
        (lines, text), (other_lines, other_text) = self._branches(*branches)
        if not lines and not other_lines:
            return f"({text} if {test} else {other_text})"
        result = self._local()
        with self._block(f"if {test}:"):
            self._put(lines)
            self._line(f"{result} = {text}")
        with self._block("else:"):
            self._put(other_lines)
            self._line(f"{result} = {other_text}")
        return result

    def _branches(self, *branches: Expression) -> list[tuple[list[str], str]]:
        """The two branches; what one costs more than the other is paid in it, or in advance where it is little."""
        outer, units = self._cost, []
        written: list[tuple[list[str], str]] = []
        for branch in branches:
            self._cost = 0
            written.append(self._apart(branch))
            units.append(self._cost)
        least, most = min(units), max(units)
        if most - least <= _WORTH_A_CHARGE:
            self._cost = outer + most
            return written
        self._cost = outer + least
        place = units.index(most)
        lines, text = written[place]
        if lines:
            depth = len(lines[0]) - len(lines[0].lstrip(" "))
            written[place] = [f"{' ' * depth}B.charge({most - least})", *lines], text
        else:
            written[place] = lines, _paid(text, most - least)
        return written

    def emit_list(self, node: ListLiteral) -> str:
        """A list; with optional elements a function drops the absent ones."""
        texts = [self._emit(element) for element in node.elements]
        if not node.optional_indices:
            return f"[{', '.join(texts)}]"
        marks = "".join("?" if index in node.optional_indices else "." for index in range(len(texts)))
        return f"{self._constant(runtime.list_with_options)}({marks!r}, [{', '.join(texts)}])"

    def emit_map(self, node: MapLiteral) -> str:
        """A map; keys must differ."""
        pairs = ", ".join(f"({self._emit(entry.key)}, {self._emit(entry.value)}, {entry.optional})" for entry in node.entries)
        return f"{self._constant(runtime.map_literal)}([{pairs}])" if pairs else "{}"

    def emit_struct(self, node: StructLiteral) -> str:
        """An object, as the dict that it is."""
        fields = self._types[node.id].fields or {}
        pairs = ", ".join(f"({fields[entry.field].key!r}, {self._emit(entry.value)}, {entry.optional})" for entry in node.entries)
        return f"{self._constant(runtime.map_literal)}([{pairs}])" if pairs else "{}"

    def emit_comprehension(self, node: Comprehension) -> str:
        """A fold; the macros' own are loops that keep nothing but what they need."""
        if node.macro is None or (isinstance(node.loop_condition, Constant) and node.loop_condition.value is False):
            return self._emit_binding(node)
        walked, kind = self._emit(node.iter_range), self._types[node.iter_range.id]
        items = self._local()
        self._line(f"{items} = {self._walk(node, kind, walked)}")
        outer, self._cost = self._cost, 0
        shadowed = dict(self._scope)
        target = self._targets(node)
        lines, self._lines = self._lines, []
        self._indent += 1
        self._blocks += 2
        result, body, early = _LOOPS[node.macro.function](self, node)
        self._indent -= 1
        self._blocks -= 2
        written, self._lines = self._lines, lines
        per_step, self._cost = self._cost, outer
        self._scope = shadowed
        units = max(per_step + costs.step_cost(node), 1)
        self._line(f"B.charge({units} * len({items}))")
        for line in body:
            self._line(line)
        iterator = self._local() if early else items
        if early:
            self._line(f"{iterator} = iter({items})")
        self._line(f"for {target} in {iterator}:")
        self._lines.extend(written)
        if early:
            self._line(f"B.left += {units} * {iterator}.__length_hint__()")
            self._line(early)
        kept = costs.kept_cost(node)
        if kept:
            self._line(f"B.charge({kept} * len({result}))")
        return result

    def _walk(self, node: Comprehension, kind: Type, walked: str) -> str:
        """What the loop goes over: elements or keys, or pairs for two variables."""
        if node.iter_var2:
            return f"{self._constant(runtime.pairs)}({walked})"
        if kind.kind == "list":
            return walked
        if kind.kind == "map" and kind.key.kind in _KEYS:
            return walked
        return f"{self._constant(runtime.elements)}({walked})"

    def _targets(self, node: Comprehension) -> str:
        """The loop's variables, now in scope."""
        names = [node.iter_var, node.iter_var2] if node.iter_var2 else [node.iter_var]
        for name in names:
            self._scope[name] = self._local()
        return ", ".join(self._scope[name] for name in names)

    def loop_all(self, node: Comprehension) -> tuple[str, list[str], str]:
        """`all` and `exists`: the first element that decides ends the loop; errors wait for one that does."""
        assert node.macro is not None
        universal = node.macro.function == "all"
        result, error = self._local(), self._local()
        lines, text = self._apart_truth(node.macro.args[-1])
        decided = f"if not {text}: {result} = False; break" if universal else f"if {text}: {result} = True; break"
        if lines or self._may_fail(node.macro.args[-1]):
            with self._block("try:"):
                self._put(lines)
                self._line(decided)
            with self._block("except ERRORS as failure:"):
                self._line(f"{error} = failure")
        else:
            self._line(decided)
        undecided = f"if {error} is not None and {result} is {universal}: raise {error}"
        return result, [f"{result} = {universal}; {error} = None"], undecided

    def loop_one(self, node: Comprehension) -> tuple[str, list[str], str]:
        """`exists_one` looks at every element."""
        assert node.macro is not None
        count = self._local()
        test = self._emit_truth(node.macro.args[-1])
        self._line(f"if {test}: {count} += 1")
        return f"({count} == 1)", [f"{count} = 0"], ""

    def loop_list(self, node: Comprehension) -> tuple[str, list[str], str]:
        """`map`, `filter`, `transformList`."""
        assert node.macro is not None
        result = self._local()
        arguments = node.macro.args[2:] if node.iter_var2 else node.macro.args[1:]
        is_filter = node.macro.function == "filter"
        if is_filter:
            test = self._emit_truth(arguments[0])
            self._line(f"if {test}: {result}.append({self._scope[node.iter_var]})")
        elif len(arguments) > 1:
            with self._block(f"if {self._emit_truth(arguments[0])}:"):
                self._line(f"{result}.append({self._emit(arguments[1])})")
        else:
            self._line(f"{result}.append({self._emit(arguments[0])})")
        return result, [f"{result} = []"], ""

    def loop_map(self, node: Comprehension) -> tuple[str, list[str], str]:
        """`transformMap` keeps the keys, `transformMapEntry` makes entries."""
        assert node.macro is not None
        result = self._local()
        *conditions, transform = node.macro.args[2:]
        entry = node.macro.function == "transformMapEntry"

        def insert() -> None:
            value = self._emit(transform)
            key = "" if entry else f"{self._scope[node.iter_var]}, "
            self._line(f"{self._constant(runtime.insert_entries if entry else runtime.insert)}({result}, {key}{value})")

        if conditions:
            with self._block(f"if {self._emit_truth(conditions[0])}:"):
                insert()
        else:
            insert()
        return result, [f"{result} = {{}}"], ""

    def _emit_binding(self, node: Comprehension) -> str:
        """A fold that never steps gives its first value a name (`optMap`)."""
        name = self._local()
        self._line(f"{name} = {self._emit(node.accu_init)}")
        shadowed = dict(self._scope)
        self._scope[node.accu_var] = name
        text = self._emit(node.result)
        self._scope = shadowed
        return text

    def _emit_outlined(self, node: Expression) -> str:
        """A node in a function of its own: Python limits how deep blocks stand inside one another."""
        self._counter += 1
        name = f"f{self._counter}"
        state = self._lines, self._indent, self._blocks, self._cost
        self._lines, self._indent, self._blocks, self._cost = [], 1, 0, 0
        parameters = ", ".join(["B", *dict.fromkeys(self._scope.values())])
        text = self._emit(node)
        self._functions.append("\n".join([f"def {name}({parameters}):", *self._lines, f" return {text}"]))
        cost = self._cost
        self._lines, self._indent, self._blocks, self._cost = state
        self._cost += cost
        return f"{name}({parameters})"

    def _may_fail(self, node: Expression) -> bool:
        """Whether an inline expression can raise: only those that read nothing but constants, variables and `has` of variables cannot."""
        match node:
            case Constant() | Identifier():
                return False
            case Select():
                return (
                    not node.test_only
                    or not isinstance(node.operand, Identifier)
                    or self._types[node.operand.id].kind not in {"object", "map"}
                )
            case Call() if node.function in {operators.NOT, operators.AND, operators.OR}:
                return any(map(self._may_fail, node.args))
            case Call() if node.function in {operators.EQUALS, operators.NOT_EQUALS}:
                return any(map(self._may_fail, node.args))
            case _:
                return True


def _paid(text: str, units: int) -> str:
    """An expression that is paid for when it is reached."""
    return f"(B.charge({units}) or {text})" if units else text


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


def _are_known(overloads: Sequence[Overload], kinds: Sequence[Type]) -> bool:
    """Whether the one overload is certain: no argument may be of another type at run time."""
    if len(overloads) != 1:
        return False
    return all(kind.kind not in _UNKNOWN or wanted.kind in _UNKNOWN for kind, wanted in zip(kinds, overloads[0].parameters, strict=True))


def _key(kind: Type, field: str) -> tuple[str, Callable[[Any], Any] | None, str]:
    """How a field of an object, or of an optional of one, is spelled in JSON, what makes it a value, what more its selection is told."""
    if kind.name == "optional_type":
        kind = kind.parameters[0]
    if kind.kind == "object" and kind.fields is not None and field in kind.fields:
        found = kind.fields[field]
        return found.key, adapter(found.type), ", nullable=True" if found.nullable else ""
    return field, None, ""


def _equality(one: Type, other: Type) -> Callable[[object, object], bool]:
    """The equality of two static types: the left one's lists decide whether order counts."""
    if one.kind in _UNKNOWN:
        return equal if other.kind in _UNKNOWN else equality_for(other)
    return equality_for(one)


_EMITTERS: Final[dict[type[Expression], Callable[[_Generator, Any], str]]] = {
    Constant: _Generator.emit_constant,
    Identifier: _Generator.emit_identifier,
    Select: _Generator.emit_select,
    Call: _Generator.emit_call,
    ListLiteral: _Generator.emit_list,
    MapLiteral: _Generator.emit_map,
    StructLiteral: _Generator.emit_struct,
    Comprehension: _Generator.emit_comprehension,
}
_SPECIAL: Final[dict[str, Callable[[_Generator, Call], str]]] = {
    operators.AND: _Generator.emit_junction,
    operators.OR: _Generator.emit_junction,
    operators.CONDITIONAL: _Generator.emit_conditional,
    operators.EQUALS: _Generator.emit_equality,
    operators.NOT_EQUALS: _Generator.emit_equality,
    operators.OPTIONAL_SELECT: _Generator.emit_optional_select,
    "or": _Generator.emit_alternative,
    "orValue": _Generator.emit_alternative,
}
_LOOPS: Final[dict[str, Callable[[_Generator, Comprehension], tuple[str, list[str], str]]]] = {
    "all": _Generator.loop_all,
    "exists": _Generator.loop_all,
    "exists_one": _Generator.loop_one,
    "existsOne": _Generator.loop_one,
    "map": _Generator.loop_list,
    "filter": _Generator.loop_list,
    "transformList": _Generator.loop_list,
    "transformMap": _Generator.loop_map,
    "transformMapEntry": _Generator.loop_map,
}
