"""What a ValidatingAdmissionPolicy says about a request."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.admission.policy.evaluation import OUT_OF_BUDGET
from kcp_py.admission.policy.validating import Annotation, Decision, ValidatingPolicy, Verdict

REQUEST: dict[str, Any] = {"object": {"spec": {"replicas": 3}}, "oldObject": None, "request": {"name": "a"}, "namespaceObject": None}
FAILS = {"expression": "object.spec.nope == 1"}
LOOP = "[0,1,2,3,4,5,6,7,8,9].all(a, {})"
EXPENSIVE = LOOP.format(LOOP.format(LOOP.format(LOOP.format(LOOP.format("true")))))


def verdict(**spec: Any) -> Verdict:
    """Of a policy about `REQUEST`."""
    return ValidatingPolicy(spec).validate(REQUEST)


@pytest.mark.parametrize(
    ("validation", "message", "reason"),
    [
        ({"expression": " object.spec.replicas < 2 "}, "failed expression: object.spec.replicas < 2", "Invalid"),
        ({"expression": "false", "message": " too many ", "reason": "Forbidden"}, "too many", "Forbidden"),
        ({"expression": "false", "message": "m", "messageExpression": "' is ' + string(object.spec.replicas)"}, "is 3", "Invalid"),
        ({"expression": "false", "message": "m", "messageExpression": "object.nope"}, "m", "Invalid"),
        ({"expression": "false", "message": "m", "messageExpression": "'a\\nb'"}, "m", "Invalid"),
        ({"expression": "false", "message": "m", "messageExpression": "'  '"}, "m", "Invalid"),
        ({"expression": "false", "message": "m", "messageExpression": f"'{'x' * 5121}'"}, "m", "Invalid"),
        (FAILS, "expression 'object.spec.nope == 1' resulted in error: no such key: nope", ""),
    ],
)
def test_messages(validation: dict[str, Any], message: str, reason: str) -> None:
    """The expression of the message wins where it gives one line; errors of the evaluation have texts of their own."""
    assert verdict(validations=[validation]).decisions == [Decision(0, allowed=False, message=message, reason=reason)]


def test_failure_policy() -> None:
    """With `Ignore` an error admits, and a validation that does not hold denies nevertheless."""
    validations = [FAILS, {"expression": "false"}]
    allowed = [decision.allowed for decision in verdict(validations=validations, failurePolicy="Ignore").decisions]
    assert allowed == [True, False]
    assert [decision.allowed for decision in verdict(validations=validations, failurePolicy="Fail").decisions] == [False, False]


@pytest.mark.parametrize(
    ("conditions", "policy", "expected"),
    [
        (["true", "request.name == 'a'"], "Fail", "applies"),
        (["object.nope", "false"], "Fail", "skipped"),
        (["object.nope == 1"], "Ignore", "skipped"),
        (["object.nope == 1"], "Fail", "expression 'object.nope == 1' resulted in error: no such key: nope"),
        (
            ["object.a == 1", "object.b == 1"],
            "Fail",
            "[expression 'object.a == 1' resulted in error: no such key: a, expression 'object.b == 1' resulted in error: no such key: b]",
        ),
        ([EXPENSIVE] * 20, "Fail", OUT_OF_BUDGET),
        ([EXPENSIVE] * 20, "Ignore", "skipped"),
    ],
)
def test_match_conditions(conditions: list[str], policy: str, expected: str) -> None:
    """A false condition excludes a request, whatever errors others have; errors alone are for the failure policy."""
    found = verdict(
        matchConditions=[{"name": f"c{index}", "expression": text} for index, text in enumerate(conditions)],
        validations=[{"expression": "false", "message": "applies"}],
        failurePolicy=policy,
    )
    assert [decision.message for decision in found.decisions] == ([] if expected == "skipped" else [expected])


def test_budget_of_a_policy() -> None:
    """All validations of a policy share a budget, beyond which the request is denied or, with `Ignore`, admitted."""
    validations = [{"expression": EXPENSIVE}] * 30
    assert verdict(validations=validations).decisions == (Decision(0, allowed=False, message=OUT_OF_BUDGET),)
    assert verdict(validations=validations, failurePolicy="Ignore").decisions[0].allowed


def test_budget_of_messages() -> None:
    """Messages are paid from what validations leave, and also those of validations that are true: without it all fail."""
    validations = [{"expression": "true", "messageExpression": f"{EXPENSIVE} ? 'a' : 'b'"}] * 30
    text = f"failed messageExpression: {OUT_OF_BUDGET}"
    assert {(one.allowed, one.message) for one in verdict(validations=validations).decisions} == {(False, text)}
    assert {(one.allowed, one.message) for one in verdict(validations=validations, failurePolicy="Ignore").decisions} == {(True, text)}
    assert all(one.allowed for one in verdict(validations=validations[:5]).decisions)


def test_audit_annotations() -> None:
    """Texts become annotations, null and blanks do not, and an error denies unless it is ignored."""
    annotations = [
        {"key": key, "valueExpression": text} for key, text in (("a", "' x '"), ("b", "null"), ("c", "''"), ("d", "string(object.nope)"))
    ]
    error = "expression 'string(object.nope)' resulted in error: no such key: nope"
    assert verdict(auditAnnotations=annotations).annotations == [Annotation("a", "x"), Annotation("d", error, failed=True)]
    assert verdict(auditAnnotations=annotations, failurePolicy="Ignore").annotations == [Annotation("a", "x")]


def test_params() -> None:
    """`params` exists for policies with a kind of parameters, and is null for bindings without one."""
    policy = ValidatingPolicy({"paramKind": {}, "validations": [{"expression": "params == null || params.data.max == '3'"}]})
    given: list[Any] = [None, {"data": {"max": "3"}}, {"data": {}}]
    found = [all(one.allowed for one in policy.validate({**REQUEST, "params": params}).decisions) for params in given]
    assert found == [True, True, False]
