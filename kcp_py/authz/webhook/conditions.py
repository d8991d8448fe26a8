"""`MatchConditions`: CEL expressions that select the requests about which a webhook is asked. Pure.

Source: k8s.io/apiserver `pkg/authorization/cel` (compile.go, matcher.go).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, duplicate, invalid, required, too_many
from kcp_py.authz.webhook.review import Spec
from kcp_py.cel.environment import Environment
from kcp_py.cel.errors import CompileError, CostExceededError, EvaluationError
from kcp_py.cel.libraries.kubernetes import KUBERNETES
from kcp_py.cel.limits import CALL_LIMIT
from kcp_py.cel.program import Program, compile_expression
from kcp_py.cel.types import STRING, Field, Type, list_of, map_of, object_of
from kcp_py.cel.values import Budget

MAX_CONDITIONS: Final = 64


def _object(title: str, /, **fields: Type) -> Type:
    return object_of(f"kubernetes.{title}", {field: Field(kind, field) for field, kind in fields.items()})


_STRINGS: Final = list_of(STRING)
_REQUIREMENT: Final = _object("SelectorRequirement", key=STRING, operator=STRING, values=_STRINGS)
_TEXTS: Final = dict.fromkeys(("namespace", "verb", "group", "version", "resource", "subresource", "name"), STRING)
_RESOURCE: Final = _object(
    "ResourceAttributes",
    **_TEXTS,
    fieldSelector=_object("FieldSelectorAttributes", rawSelector=STRING, requirements=list_of(_REQUIREMENT)),
    labelSelector=_object("LabelSelectorAttributes", rawSelector=STRING, requirements=list_of(_REQUIREMENT)),
)
_REQUEST: Final = _object(
    "SubjectAccessReviewSpec",
    resourceAttributes=_RESOURCE,
    nonResourceAttributes=_object("NonResourceAttributes", path=STRING, verb=STRING),
    user=STRING,
    groups=_STRINGS,
    extra=map_of(STRING, _STRINGS),
    uid=STRING,
)
_ENVIRONMENT: Final = Environment({"request": _REQUEST}, KUBERNETES)


class MatchError(Exception):
    """A condition has no value for a request, and no other condition excludes the request."""


class MatchConditions:
    """Compiled conditions, all of which must hold."""

    def __init__(self, programs: Iterable[Program] = ()) -> None:
        self._programs = tuple(programs)

    def match(self, spec: Spec) -> bool:
        """Whether the webhook is asked about a request.

        Raises:
            MatchError: the conditions cannot tell.
        """
        if not self._programs:
            return True
        request = _whole(spec)
        problems: list[str] = []
        for program in self._programs:
            try:
                holds = program.evaluate(Budget(CALL_LIMIT), request)
            except (EvaluationError, CostExceededError) as error:
                problems.append(f"cel evaluation error: expression '{program.text}' resulted in error: {error}")
                continue
            if not holds:
                return False
        if problems:
            raise MatchError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
        return True


def compile_conditions(conditions: Iterable[str], path: str) -> tuple[MatchConditions, list[FieldError]]:
    """Compile expressions, and find their problems.

    Args:
        conditions: the expressions.
        path: of the list, in errors.
    """
    expressions = list(conditions)
    if len(expressions) > MAX_CONDITIONS:
        return MatchConditions(), [too_many(path, len(expressions), MAX_CONDITIONS)]
    programs: dict[str, Program] = {}
    problems: list[FieldError] = []
    seen: set[str] = set()
    for index, text in enumerate(expressions):
        field = f"{path}[{index}].expression"
        if not text.strip():
            problems.append(required(field))
        elif text in seen:
            problems.append(duplicate(field, text))
        else:
            seen.add(text)
            try:
                programs[text] = _compiled(text)
            except CompileError as error:
                problems.append(invalid(field, text, f"compilation failed: {error}"))
            except TypeError as error:
                problems.append(invalid(field, text, str(error)))
    return MatchConditions(programs.values()), problems


def _compiled(text: str) -> Program:
    """A condition whose code is made: the first request does not wait for it.

    Raises:
        CompileError: the text is not an expression.
        TypeError: its value is not a truth value.
    """
    program = compile_expression(text, _ENVIRONMENT)
    if program.result.kind != "bool":
        raise TypeError(f"must evaluate to bool but got {program.result}")
    try:
        program.evaluate(Budget(CALL_LIMIT), _whole({}))
    except (EvaluationError, CostExceededError):
        # It has no value for an empty request.
        return program
    return program


def _whole(spec: Spec) -> dict[str, Any]:
    """The spec with empty texts and lists where a field is not set, as expressions see it."""
    request: dict[str, Any] = {"user": "", "groups": [], "uid": "", "extra": {}, **spec}
    if (resource := spec.get("resourceAttributes")) is not None:
        request["resourceAttributes"] = {**dict.fromkeys(_TEXTS, ""), **resource}
        for selector in ("fieldSelector", "labelSelector"):
            if selector in resource:
                requirements = [{"values": [], **one} for one in resource[selector]["requirements"]]
                request["resourceAttributes"][selector] = {"requirements": requirements}
    if (path := spec.get("nonResourceAttributes")) is not None:
        request["nonResourceAttributes"] = {"path": "", "verb": "", **path}
    return request
