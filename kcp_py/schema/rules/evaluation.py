"""Rules at work: the walk over an object, with the old one beside it, and what is said of failures.

Source: k8s.io/apiextensions-apiserver `pkg/apiserver/schema/cel/validation.go`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NoReturn

from kcp_py.apimachinery.fielderrors import FieldError, duplicate, forbidden, invalid, required
from kcp_py.schema.cel.errors import CostExceededError, EvaluationError
from kcp_py.schema.cel.values import NONE, Budget, Optional
from kcp_py.schema.places import Path, render, step
from kcp_py.schema.rules.compilation import CompiledRule
from kcp_py.schema.rules.correlation import ABSENT, correlate_items
from kcp_py.schema.rules.tree import RuleNode
from kcp_py.schema.values import equal

__all__ = ["CALL_LIMIT", "OBJECT_LIMIT", "Outcome", "evaluate"]

CALL_LIMIT: Final = 1_000_000
"""Units that one evaluation of one rule may cost."""
OBJECT_LIMIT: Final = 10_000_000
"""Units that all rules of one object may cost."""
_LONGEST_MESSAGE: Final = 5 * 1024
_OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


class Outcome:
    """What the rules say of an object.

    Attributes:
        errors: in the order of the walk.
        warnings: of rules that do not hold for a part that did not change (ratcheting).
        exhausted: whether a limit ended the walk.
    """

    __slots__ = ("errors", "exhausted", "warnings")

    def __init__(self) -> None:
        """Nothing yet."""
        self.errors: list[FieldError] = []
        self.warnings: list[str] = []
        self.exhausted = False


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a rule runs, and on what."""

    node: RuleNode
    value: Any
    old: Any
    path: Path


class _StopError(Exception):
    """The budget is used up."""


def evaluate(root: RuleNode, obj: Any, old: Any = ABSENT, *, limit: int = OBJECT_LIMIT) -> Outcome:
    """Run all rules of an object.

    Args:
        root: the compiled rules of its schema.
        obj: the new object, valid by the rest of the schema.
        old: the stored object on update.
        limit: units that all rules together may cost.
    """
    walk = _Walk(limit)
    try:
        walk.node(root, obj, old, None)
    except _StopError:
        walk.outcome.exhausted = True
    return walk.outcome


class _Walk:
    """One run over one object."""

    __slots__ = ("_granted", "_left", "outcome")

    def __init__(self, limit: int) -> None:
        """Begin with the whole budget."""
        self._left = limit
        self._granted = 0
        self.outcome = Outcome()

    def node(self, node: RuleNode, value: Any, old: Any, path: Path) -> None:
        """A node's own rules, then those below."""
        if value is None:
            return
        if node.rules:
            place = _Place(node, value, old, path)
            for rule in node.rules:
                self._rule(rule, place)
        if type(value) is dict:
            if not node.correlatable:
                old = ABSENT
            if node.values is not None:
                for name, child in value.items():
                    self.node(node.values, child, _member(old, name), (path, f"[{name}]"))
            properties = node.properties
            if properties:
                for name, child in value.items():
                    below = properties.get(name)
                    if below is not None:
                        self.node(below, child, _member(old, name), step(path, name))
        elif type(value) is list and node.items is not None:
            correlated = correlate_items(node.list_type, node.list_keys, old)
            for index, item in enumerate(value):
                self.node(node.items, item, correlated(item), (path, f"[{index}]"))

    def _rule(self, rule: CompiledRule, place: _Place) -> None:
        """One rule on one value."""
        if rule.program is None:
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
        self._granted = min(CALL_LIMIT, self._left + 1)
        return Budget(self._granted)

    def _spend(self, budget: Budget, place: _Place) -> None:
        """Take what an evaluation cost from what the object may cost."""
        self._left -= self._granted - budget.left
        if self._left < 0:
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
        error = _error_for(rule.reason, _below(_field(place.path), rule.field_path), place.value, message)
        if not rule.transition and place.old is not ABSENT and equal(place.value, place.old):
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
            self._check_left(place)
            self._add(place, f"messageExpression evaluation failed due to running out of cost budget: {rule.name}")
            raise _StopError from error
        self._spend(budget, place)
        if not isinstance(message, str) or not message.strip() or "\n" in message or len(message.encode()) > _LONGEST_MESSAGE:
            return rule.failure
        return message.strip()


def _member(old: Any, name: str) -> Any:
    """The old value of a field or entry."""
    return old.get(name, ABSENT) if type(old) is dict else ABSENT


def _field(path: Path) -> str:
    """The text of a place; the object itself has none."""
    return render(path).removeprefix(".") or "<nil>"


def _below(field: str, relative: str) -> str:
    """A place with a rule's own path behind it."""
    if not relative:
        return field
    if field == "<nil>":
        return relative.removeprefix(".")
    return field + relative if relative.startswith("[") else f"{field}.{relative.removeprefix('.')}"


def _evaluation_error(rule: CompiledRule, error: EvaluationError) -> str:
    """What is said of a rule that has no value."""
    text = str(error)
    if text.startswith("no such overload"):
        return f"'{text}': call arguments did not match a supported operator, function or macro signature for rule: {rule.name}"
    return f"{text} evaluating rule: {rule.name}"


def _error_for(reason: str, field: str, value: Any, message: str) -> FieldError:
    """The error of a rule's reason. Since 1.34 scalars are printed and containers are not."""
    match reason:
        case "FieldValueRequired":
            return required(field, message)
        case "FieldValueForbidden":
            return forbidden(field, message)
        case "FieldValueDuplicate":
            return duplicate(field, _printed(value))
        case _ if type(value) in {dict, list}:
            return FieldError("FieldValueInvalid", field, f"Invalid value: {message}")
        case _:
            return invalid(field, value, message)


def _printed(value: Any) -> Any:
    """A scalar; of a container nothing is printed."""
    return "" if type(value) in {dict, list} else value
