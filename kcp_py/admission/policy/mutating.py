"""`MutatingPolicy`: a compiled MutatingAdmissionPolicy, and what its mutations make of an object. Pure.

Source: k8s.io/apiserver `pkg/admission/plugin/policy/mutating` (`compilation.go`, `patch/smd.go`, `patch/json_patch.go`) and
`pkg/cel/mutation/dynamic/objects.go`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.admission.policy.evaluation import Allowance, Evaluation, OutOfBudgetError
from kcp_py.admission.policy.validating import Conditions
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.managedfields.conformity import typed_problems
from kcp_py.apimachinery.managedfields.merging import DuplicateKeyError, merge
from kcp_py.apimachinery.managedfields.types import MergeType
from kcp_py.apimachinery.patches import json_patch
from kcp_py.apis.admissionregistration.environment import JSON_PATCH, OBJECT, Declared
from kcp_py.apis.admissionregistration.expressions import CONDITION, Composition, Expression, named, prepare
from kcp_py.apis.admissionregistration.mutations import FIELDS, RESULTS
from kcp_py.cel.limits import OBJECT_BUDGET
from kcp_py.cel.syntax import Expression as Node
from kcp_py.cel.syntax import StructLiteral, children
from kcp_py.cel.times import duration_text, timestamp_text
from kcp_py.cel.values import BoolKey, Duration, Timestamp
from kcp_py.golang.quoting import go_quote

_REJECTED: Final = "the server rejected our request due to an error in our request: "


class MutationError(Exception):
    """A mutation cannot be applied. `str()` is upstream's text."""


class Mutation(NamedTuple):
    """A mutation of a policy."""

    is_json_patch: bool
    expression: Expression
    mismatch: str
    """Why the types of the objects that the expression makes do not fit the fields that they are for; empty where they do."""


class MutatingPolicy:
    """A compiled policy. Immutable, and shared by all clusters that have a policy of equal content."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        """Compile the `spec` of a policy, and make the code of its expressions."""
        declared = Declared(params=spec.get("paramKind") is not None)
        composition = Composition()
        for name, text in named(spec.get("variables") or ()):
            composition.add(name, text, declared)
        self._variables: Mapping[str, Expression] = composition.variables
        conditions = [composition.compile(text, declared, CONDITION) for _, text in named(spec.get("matchConditions") or ())]
        self._conditions = Conditions(conditions, ignore_errors=spec.get("failurePolicy") == "Ignore")
        self.mutations: Sequence[Mutation] = tuple(
            _compiled(mutation, composition, declared._replace(patch_types=True)) for mutation in spec.get("mutations") or ()
        )
        prepare([*self._variables.values(), *conditions, *(mutation.expression for mutation in self.mutations)])

    def match(self, values: Mapping[str, Any], allowance: Allowance | None) -> tuple[bool, str]:
        """Whether the policy applies to a request, and why that cannot be told: empty where it can."""
        return self._conditions.match(values, self._variables, allowance)

    def evaluate(self, mutation: Mutation, values: Mapping[str, Any], allowance: Allowance | None) -> Any:
        """The value of the expression of a mutation, as JSON.

        Raises:
            MutationError: there is none.
            TooLargeError: the allowance is used up.
        """
        if mutation.expression.program is None:
            raise MutationError(mutation.expression.error)
        evaluation = Evaluation(values, self._variables, OBJECT_BUDGET, allowance=allowance)
        try:
            result = evaluation.evaluate(mutation.expression)
        except OutOfBudgetError as error:
            raise MutationError(str(error)) from None
        if result.error:
            raise MutationError(result.error)
        if mutation.mismatch:
            raise MutationError(f"type mismatch: {mutation.mismatch}")
        return _json(result.value)


def _compiled(mutation: Mapping[str, Any], composition: Composition, declared: Declared) -> Mutation:
    kind = mutation["patchType"]
    text = (mutation.get(FIELDS[kind]) or {}).get("expression", "")
    expression = composition.compile(text, declared, RESULTS[kind])
    mismatches = [] if expression.program is None else _mismatches(expression.program.checked.root, ())
    return Mutation(kind == "JSONPatch", expression, "\n".join(mismatches))


def _mismatches(node: Node, path: tuple[str, ...]) -> Iterator[str]:
    """The objects whose types do not say at which field they are. `path`: of the field; empty where any type begins one.

    Upstream looks at the values. Each object of a value is made by an expression in the text, so the text tells it, too.
    """
    if not isinstance(node, StructLiteral):
        for child in children(node):
            yield from _mismatches(child, path)
        return
    name = node.name.lstrip(".")
    if name == JSON_PATCH:
        for entry in node.entries:
            yield from _mismatches(entry.value, ())
        return
    path = path or (tuple(name.split(".")) if name.partition(".")[0] == OBJECT else (OBJECT,))
    if name != (wanted := ".".join(path)):
        yield (f"unexpected type name {go_quote(name)}, expected {go_quote(wanted)}, which matches field name path from root Object type")
    for entry in node.entries:
        yield from _mismatches(entry.value, (*path, entry.field))


def _json(value: Any) -> Any:
    """A value of CEL as JSON.

    Raises:
        MutationError: JSON has no such value.
    """
    match value:
        case None | bool() | str() | float():
            return value
        case int():
            return int(value)
        case dict():
            return {_key(key): _json(one) for key, one in value.items()}
        case list():
            return [_json(one) for one in value]
        case bytes():
            return base64.b64encode(value).decode()
        case Timestamp():
            return timestamp_text(value)
        case Duration():
            return duration_text(value)
        case _:
            raise MutationError("the expression evaluated to a type that could not marshal to JSON")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    raise MutationError(f"unexpected type of map key: {type(key.value if isinstance(key, BoolKey) else key).__name__}")


def patched(obj: dict[str, Any], operations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """An object after a JSON patch; the object itself where a `test` of the patch fails.

    Raises:
        MutationError: the patch cannot be applied.
    """
    given = [
        {"op": "", "path": "", **{member: value for member, value in operation.items() if member != "from" or value}}
        for operation in operations
    ]
    try:
        result = json_patch.apply(obj, given)
    except StatusError as error:
        text = error.message.removeprefix(_REJECTED)
        if text.startswith("testing "):
            return obj
        raise MutationError(f"JSON Patch: {text}") from error
    if not isinstance(result, dict):
        raise MutationError("JSON Patch: the result is not an object")
    return result


def merged(obj: dict[str, Any], configuration: Mapping[str, Any], kind: MergeType) -> dict[str, Any]:
    """An object with an apply configuration laid over it.

    Args:
        obj: is not changed.
        configuration: the value of an expression.
        kind: of the object.

    Raises:
        MutationError: the configuration does not fit the kind, or has parts that are replaced as a whole.
    """
    applied = {**configuration, "apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    prefix = "error applying patch: "
    if problems := typed_problems(kind, applied):
        shown = problems[0] if len(problems) == 1 else "errors:\n" + "\n".join(f"  {problem}" for problem in problems)
        raise MutationError(f"{prefix}failed to convert patch object to typed object: {shown}")
    if atomics := list(_atomics(kind, applied, "")):
        places = ", ".join(atomics)
        raise MutationError(f"{prefix}invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {places}")
    try:
        result: dict[str, Any] = merge(kind, obj, applied)
    except DuplicateKeyError as error:
        raise MutationError(f"{prefix}failed to merge patch: {error}") from error
    return result


def _atomics(kind: MergeType, value: Any, path: str) -> Iterator[str]:
    """The places of lists and maps of a value that are replaced as a whole."""
    if isinstance(value, dict) and kind.kind == "map":
        if kind.atomic:
            yield path
        for name, child in value.items():
            below = kind.fields.get(name)
            if below is not None:
                yield from _atomics(below, child, f"{path}.{name}")
    elif isinstance(value, list) and kind.kind == "list":
        if kind.atomic or not kind.list_type:
            yield path
        if kind.element is not None:
            for index, child in enumerate(value):
                yield from _atomics(kind.element, child, f"{path}[{index}]")
