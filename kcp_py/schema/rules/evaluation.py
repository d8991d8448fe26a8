"""Evaluation of rules: the walk over an object and the old one, and the errors about failures.

Source: k8s.io/apiextensions-apiserver `pkg/apiserver/schema/cel/validation.go`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from kcp_py.apimachinery.fielderrors import NO_VALUE, FieldError, duplicate, forbidden, invalid, required
from kcp_py.cel.errors import CostExceededError, EvaluationError
from kcp_py.cel.limits import CALL_LIMIT, OBJECT_BUDGET
from kcp_py.cel.values import NONE, Budget, Optional
from kcp_py.golang.quoting import go_quote
from kcp_py.golang.regexp import searches
from kcp_py.schema.rules.tree import RuleNode
from kcp_py.schema.structural.correlated import ABSENT, Correlated, correlate_items
from kcp_py.schema.structural.nodes import Node
from kcp_py.schema.structural.places import Path, render, step

if TYPE_CHECKING:
    from kcp_py.schema.rules.compilation import CompiledRule

__all__ = ["Outcome", "evaluate"]

_LONGEST_MESSAGE: Final = 5 * 1024
_MESSAGE_OUT_OF_BUDGET: Final = (
    "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
)
_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


_Pair = tuple[Correlated | None, Correlated | None]
"""A value paired with its old one, where they correlate and unchanged parts count; and the nearest container with such a pair."""


class Outcome:
    """The results of the rules for an object.

    Attributes:
        errors: in the order of the walk.
        warnings: of rules that do not hold for a part that did not change (ratcheting).
        exhausted: whether a limit ended the walk.
        left: units that it did not cost.
    """

    __slots__ = ("errors", "exhausted", "left", "warnings")

    def __init__(self) -> None:
        """Begin without errors."""
        self.errors: list[FieldError] = []
        self.warnings: list[str] = []
        self.exhausted = False
        self.left = 0


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a rule runs, and on what."""

    node: RuleNode
    value: Any
    old: Any
    path: Path
    unchanged: Correlated | None


class _StopError(Exception):
    """The budget is used up."""


def evaluate(
    root: RuleNode, obj: Any, old: Any = ABSENT, *, schema: Node | None = None, limit: int = OBJECT_BUDGET, path: Path = None
) -> Outcome:
    """Run all rules of an object.

    Args:
        root: the compiled rules of its schema.
        obj: the new object, valid by the rest of the schema.
        old: the stored object on update.
        schema: of the object; errors of rules about parts that did not change since `old` become warnings. None: they stay errors.
        limit: units that all rules together may cost. Below `OBJECT_BUDGET`, a search that may take long exhausts it, too.
        path: of the object.
    """
    with searches(long=limit >= OBJECT_BUDGET):
        outcome = _run(root, obj, old, None, limit=limit, path=path)
        if outcome.errors and schema is not None and old is not ABSENT:
            # Only now is it worth while to know what did not change.
            outcome = _run(root, obj, old, Correlated(schema, obj, old, top=True), limit=limit, path=path)
    return outcome


def _run(root: RuleNode, obj: Any, old: Any, was: Correlated | None, *, limit: int, path: Path) -> Outcome:
    walk = _Walk(limit)
    try:
        walk.node(root, obj, old, path, (was, None))
    except _StopError:
        walk.outcome.exhausted = True
    walk.outcome.left = walk.left
    return walk.outcome


class _Walk:
    """One run over one object."""

    __slots__ = ("_granted", "left", "outcome")

    def __init__(self, limit: int) -> None:
        """Begin with the whole budget."""
        self.left = limit
        self._granted = 0
        self.outcome = Outcome()

    def node(self, node: RuleNode, value: Any, old: Any, path: Path, pair: _Pair) -> None:
        """A node's own rules, then those below."""
        if value is None:
            return
        if node.rules:
            place = _Place(node, value, old, path, pair[0] or pair[1])
            for rule in node.rules:
                self._rule(rule, place)
        if type(value) is dict:
            if node.values is not None:
                for name, child in value.items():
                    self.node(node.values, child, _member(old, name), (path, f"[{name}]"), _below(pair, name))
            properties = node.properties
            if properties:
                for name, child in value.items():
                    part = properties.get(name)
                    if part is not None:
                        self.node(part, child, _member(old, name), step(path, name), _below(pair, name))
        elif type(value) is list and node.items is not None:
            correlated = correlate_items(node.list_type, node.list_keys, old)
            for index, item in enumerate(value):
                was = pair[0]
                below = pair if was is None else (was.index(index), was)
                self.node(node.items, item, correlated(item), (path, f"[{index}]"), below)

    def _rule(self, rule: CompiledRule, place: _Place) -> None:
        """One rule on one value."""
        if rule.program is None:
            if rule.error:
                self._add(place, f"rule compile error: {rule.error}")
            return
        old = place.old
        absent = old is ABSENT or old is None
        if rule.transition and absent and not rule.optional_old_self:
            return
        if rule.optional_old_self:
            old = NONE if absent else Optional(old)
        budget = self._budget()
        try:
            result = rule.program.evaluate(budget, place.value, old)
        except EvaluationError as error:
            self._spend(budget, place)
            self._add(place, _evaluation_error(rule, error))
            return
        except CostExceededError as error:
            self._check_left(place)
            self._add(place, f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {rule.name}")
            raise _StopError from error
        self._spend(budget, place)
        if result is not True:
            self._fail(rule, place, old)

    def _add(self, place: _Place, detail: str) -> None:
        """An error about a rule prints the type of the value, not the value."""
        self.outcome.errors.append(invalid(_field(place.path), place.node.kind, detail))

    def _budget(self) -> Budget:
        """For one evaluation: its own limit, or one unit more than the object has left where that is less."""
        self._granted = min(CALL_LIMIT, self.left + 1)
        return Budget(self._granted)

    def _spend(self, budget: Budget, place: _Place) -> None:
        """Take what an evaluation cost from what the object may cost."""
        self.left -= self._granted - budget.left
        if self.left < 0:
            self._stop(place)

    def _check_left(self, place: _Place) -> None:
        """An evaluation ended at its limit: was it the object's?"""
        if self._granted < CALL_LIMIT:
            self._stop(place)

    def _stop(self, place: _Place) -> NoReturn:
        """No further rule will be run."""
        self._add(place, _OUT_OF_BUDGET)
        raise _StopError

    def _fail(self, rule: CompiledRule, place: _Place, old_self: Any) -> None:
        """A rule does not hold."""
        message = self._message(rule, place, old_self)
        self._add_failure(rule, place, _error_for(rule.reason, _field_of(rule, place), place, message))

    def _add_failure(self, rule: CompiledRule, place: _Place, error: FieldError) -> None:
        """A warning is enough where nothing changed that the rule sees."""
        if not rule.transition and place.unchanged is not None and place.unchanged.unchanged:
            self.outcome.warnings.append(str(error))
        else:
            self.outcome.errors.append(error)

    def _message(self, rule: CompiledRule, place: _Place, old_self: Any) -> str:
        """The message's expression where it gives one line of text, else the message."""
        program = rule.message_program
        if program is None:
            return rule.failure
        budget = self._budget()
        try:
            message = program.evaluate(budget, place.value, old_self)
        except EvaluationError:
            message = None
        except CostExceededError as error:
            source = go_quote(program.text)
            detail = f"no further validation rules will be run due to call cost exceeds limit for messageExpression: {source}"
            self._stop_message(rule, place, _MESSAGE_OUT_OF_BUDGET if self._granted < CALL_LIMIT else detail, error)
        self.left -= self._granted - budget.left
        if self.left < 0:
            self._stop_message(rule, place, _MESSAGE_OUT_OF_BUDGET, None)
        text = message.strip() if isinstance(message, str) else ""
        return text if text and "\n" not in text and len(text.encode()) <= _LONGEST_MESSAGE else rule.failure

    def _stop_message(self, rule: CompiledRule, place: _Place, detail: str, cause: CostExceededError | None) -> NoReturn:
        """A message cost too much: no further rule will be run, and the rule that it belongs to does not hold."""
        self._add_failure(rule, place, invalid(_field_of(rule, place), place.node.kind, detail))
        raise _StopError from cause


def _member(old: Any, name: str) -> Any:
    """The old value of a field or entry."""
    return old.get(name, ABSENT) if type(old) is dict else ABSENT


def _field(path: Path) -> str:
    """The text of a place; the object itself has none."""
    return render(path).removeprefix(".") or "<nil>"


def _field_of(rule: CompiledRule, place: _Place) -> str:
    """Where a rule points to."""
    if not rule.field_path:
        return _field(place.path)
    return f"{render(place.path)}.{rule.field_path}".removeprefix(".")


def _below(pair: _Pair, name: str) -> _Pair:
    """A field with its old value, and the container that answers for it where it has none."""
    was = pair[0]
    if was is None:
        return pair
    return (None, None) if was.top and name in {"apiVersion", "kind"} else (was.key(name), was)


def _evaluation_error(rule: CompiledRule, error: EvaluationError) -> str:
    """The message for a rule that has no value."""
    text = str(error)
    if text.startswith("no such overload"):
        return f"'{text}': call arguments did not match a supported operator, function or macro signature for rule: {rule.name}"
    return f"{text} evaluating rule: {rule.name}"


def _error_for(reason: str, field: str, place: _Place, message: str) -> FieldError:
    """The error of a rule's reason. Since 1.34 scalars are printed and containers are not."""
    omitted = place.node.kind in {"object", "array"}
    match reason:
        case "FieldValueRequired":
            return required(field, message)
        case "FieldValueForbidden":
            return forbidden(field, message)
        case "FieldValueDuplicate":
            return duplicate(field, NO_VALUE if omitted else place.value)
        case _ if omitted:
            return invalid(field, NO_VALUE, message)
        case _:
            return invalid(field, place.value, message)
