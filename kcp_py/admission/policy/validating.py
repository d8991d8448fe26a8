"""`ValidatingPolicy`: a compiled ValidatingAdmissionPolicy, and what it says about a request. Pure.

Source: k8s.io/apiserver `pkg/admission/plugin/policy/validating` (`plugin.go`, `validator.go`) and
`pkg/admission/plugin/webhook/matchconditions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.admission.policy.evaluation import TRUE, Allowance, Evaluated, Evaluation, OutOfBudgetError
from kcp_py.apis.admissionregistration.environment import Declared
from kcp_py.apis.admissionregistration.expressions import ANNOTATION, CONDITION, MESSAGE, Composition, Expression, named, prepare
from kcp_py.cel.limits import CALL_LIMIT, MATCH_CONDITIONS_BUDGET, OBJECT_BUDGET

_LONGEST_MESSAGE: Final = 5 * 1024
INVALID: Final = "Invalid"
_NO_AUTHORIZER: Final = {"authorizer": None, "authorizer.requestResource": None}
"""Messages and audit annotations do not ask for permissions."""


class Decision(NamedTuple):
    """The result of one validation."""

    place: int
    """The index of the validation in the policy."""
    allowed: bool
    message: str = ""
    reason: str = ""
    """Empty for failures of the evaluation."""


class Annotation(NamedTuple):
    """An audit annotation of a policy that has a value, or that could not be evaluated."""

    key: str
    value: str
    failed: bool = False
    """Whether `value` is an error because of which the request is denied."""


class Verdict(NamedTuple):
    """What a policy says about a request with one parameter."""

    decisions: Sequence[Decision] = ()
    """May be empty where all validations are true."""
    annotations: Sequence[Annotation] = ()


_NOTHING_TO_SAY: Final = Verdict()


class _Validation(NamedTuple):
    expression: Expression
    message: str
    """Empty where the policy gives none."""
    message_expression: Expression | None
    reason: str


class Conditions:
    """Match conditions of a policy."""

    def __init__(self, expressions: Sequence[Expression], *, ignore_errors: bool) -> None:
        self.expressions = tuple(expressions)
        self._ignore_errors = ignore_errors

    def match(self, values: Mapping[str, Any], variables: Mapping[str, Expression], allowance: Allowance | None) -> tuple[bool, str]:
        """Whether the policy applies to a request, and why that cannot be told: empty where it can."""
        if not self.expressions:
            return True, ""
        evaluation = Evaluation({**values, "namespaceObject": None}, variables, MATCH_CONDITIONS_BUDGET, allowance=allowance)
        results: list[Evaluated] = []
        try:
            results.extend(evaluation.evaluate(expression) for expression in self.expressions)
        except OutOfBudgetError as error:
            return False, "" if self._ignore_errors else str(error)
        if any(result.value is False for result in results):
            return False, ""
        problems = [result.error for result in results if result.error]
        if not problems:
            return True, ""
        return False, "" if self._ignore_errors else problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"


class ValidatingPolicy:
    """A compiled policy. Immutable, and shared by all clusters that have a policy of equal content."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        """Compile the `spec` of a policy, and make the code of its expressions."""
        declared = Declared(params=spec.get("paramKind") is not None)
        plain = declared._replace(authorizer=False)
        composition = Composition()
        for name, text in named(spec.get("variables") or ()):
            composition.add(name, text, declared)
        self._variables: Mapping[str, Expression] = composition.variables
        self.ignores_failures = spec.get("failurePolicy") == "Ignore"
        self._conditions = Conditions(
            [composition.compile(text, declared, CONDITION) for _, text in named(spec.get("matchConditions") or ())],
            ignore_errors=self.ignores_failures,
        )
        self._validations = tuple(
            _Validation(
                composition.compile(one["expression"], declared, CONDITION),
                one.get("message", "").strip(),
                composition.compile(text, plain, MESSAGE) if (text := one.get("messageExpression")) else None,
                one.get("reason") or INVALID,
            )
            for one in spec.get("validations") or ()
        )
        with_messages = [one for one in self._validations if one.message_expression is not None]
        # Validations that are true fail nevertheless where the budget does not suffice for messages.
        self._cost_of_messages = CALL_LIMIT * (len(with_messages) + len(self._variables)) if with_messages else 0
        """The most that all messages can cost."""
        self._annotations = tuple(
            (one["key"], composition.compile(one["valueExpression"], declared, ANNOTATION)) for one in spec.get("auditAnnotations") or ()
        )
        prepare([*self._variables.values(), *self._conditions.expressions, *(one.expression for one in self._validations)])
        prepare([*(one.message_expression for one in self._validations), *(expression for _, expression in self._annotations)])

    def validate(
        self, values: Mapping[str, Any], *, conditions: Mapping[str, Any] | None = None, allowance: Allowance | None = None
    ) -> Verdict:
        """Evaluate the policy for a request.

        Args:
            values: of the variables of the environment, by name.
            conditions: the values for match conditions, if they are others.
            allowance: for evaluation on the event loop.

        Raises:
            TooLargeError: the allowance is used up.
            Exception: of the function that decides about permissions.
        """
        matches, problem = self._conditions.match(values if conditions is None else conditions, self._variables, allowance)
        if problem:
            return self._failed(problem)
        if not matches:
            return _NOTHING_TO_SAY
        evaluation = Evaluation(values, self._variables, OBJECT_BUDGET, allowance=allowance)
        try:
            results = [evaluation.evaluate(one.expression) for one in self._validations]
        except OutOfBudgetError as error:
            return self._failed(str(error))
        decisions: Sequence[Decision] = ()
        if evaluation.left < self._cost_of_messages or [one for one in results if one is not TRUE]:
            decisions = self._decisions(results, values, evaluation.left, allowance)
        if not self._annotations:
            return Verdict(decisions) if decisions else _NOTHING_TO_SAY
        annotating = Evaluation({**values, **_NO_AUTHORIZER}, self._variables, OBJECT_BUDGET, allowance=allowance)
        try:
            annotations = [(key, annotating.evaluate(expression)) for key, expression in self._annotations]
        except OutOfBudgetError as error:
            return self._failed(str(error))
        return Verdict(decisions, [found for key, result in annotations if (found := self._annotation(key, result)) is not None])

    def _failed(self, message: str) -> Verdict:
        return Verdict((Decision(0, self.ignores_failures, message),))

    def _decisions(
        self, results: Sequence[Evaluated], values: Mapping[str, Any], budget: int, allowance: Allowance | None
    ) -> Sequence[Decision]:
        """What validations decide, with the messages of those that fail."""
        messages: list[Evaluated | None] = []
        problem = ""
        telling = Evaluation({**values, **_NO_AUTHORIZER}, self._variables, budget, allowance=allowance)
        try:
            messages.extend(one.message_expression and telling.evaluate(one.message_expression) for one in self._validations)
        except OutOfBudgetError as error:
            problem = f"failed messageExpression: {error}"
        return [
            self._decision(index, result, messages[index] if len(messages) > index else None, problem)
            for index, result in enumerate(results)
        ]

    def _decision(self, index: int, result: Evaluated, message: Evaluated | None, problem: str) -> Decision:
        if result.error:
            return Decision(index, self.ignores_failures, result.error)
        if problem:
            return Decision(index, self.ignores_failures, problem)
        if result.value is True:
            return Decision(index, allowed=True)
        validation = self._validations[index]
        text = message.value.strip() if message is not None and isinstance(message.value, str) else ""
        if len(text.encode()) > _LONGEST_MESSAGE or "\n" in text:
            text = ""
        text = text or validation.message or f"failed expression: {validation.expression.text.strip()}"
        return Decision(index, False, text, validation.reason)

    def _annotation(self, key: str, result: Evaluated) -> Annotation | None:
        if result.error:
            return None if self.ignores_failures else Annotation(key, result.error, failed=True)
        value = result.value.strip() if isinstance(result.value, str) else ""
        return Annotation(key, value) if value else None
