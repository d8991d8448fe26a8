"""Permissions (apiserver `pkg/cel/library/authz.go`): for policies and match conditions, not for schema rules.

The library collects questions. A function that the caller gives to `Authorizer` decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, NamedTuple

from kcp_py.apimachinery.meta.names import dns_label_problems, dns_subdomain_problems
from kcp_py.cel.declarations import Function, Library, Overload
from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.types import BOOL, STRING, Type, opaque

__all__ = ["AUTHORIZER", "AUTHZ", "RESOURCE_CHECK", "Authorizer", "Decision", "Question", "ResourceCheck"]

_PREFIX: Final = "kubernetes.authorization."
AUTHORIZER: Final = opaque(f"{_PREFIX}Authorizer")
"""The type of the variable `authorizer`."""
RESOURCE_CHECK: Final = opaque(f"{_PREFIX}ResourceCheck")
"""The type of the variable `authorizer.requestResource`."""
_PATH_CHECK: Final = opaque(f"{_PREFIX}PathCheck")
_GROUP_CHECK: Final = opaque(f"{_PREFIX}GroupCheck")
_DECISION: Final = opaque(f"{_PREFIX}Decision")


class Question(NamedTuple):
    """What an expression asks: whether a user may do something."""

    verb: str
    account: tuple[str, str] | None = None
    """Namespace and name of a service account; None for the user of the request."""
    path: str = ""
    """Not empty for a request about a URL. The fields below are for requests about resources."""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer."""

    cel_type: ClassVar[Type] = _DECISION

    allowed: bool
    reason: str = ""
    error: str = ""
    """Why there is no decision; empty where there is one."""


@dataclass(frozen=True, slots=True)
class Authorizer:
    """The permissions of a user."""

    cel_type: ClassVar[Type] = AUTHORIZER

    decide: Callable[[Question], Decision]
    """It may raise an exception of its own, which ends the evaluation and is passed on: no part of the language absorbs it."""
    account: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class _PathCheck:
    cel_type: ClassVar[Type] = _PATH_CHECK

    decide: Callable[[Question], Decision]
    question: Question


@dataclass(frozen=True, slots=True)
class _GroupCheck:
    cel_type: ClassVar[Type] = _GROUP_CHECK

    decide: Callable[[Question], Decision]
    question: Question


@dataclass(frozen=True, slots=True)
class ResourceCheck:
    """A question about a resource that has no verb yet."""

    cel_type: ClassVar[Type] = RESOURCE_CHECK

    decide: Callable[[Question], Decision]
    question: Question


def _path(authorizer: Authorizer, path: str) -> _PathCheck:
    if not path.strip():
        msg = "path must not be empty"
        raise EvaluationError(msg)
    return _PathCheck(authorizer.decide, Question("", authorizer.account, path))


def _group(authorizer: Authorizer, group: str) -> _GroupCheck:
    return _GroupCheck(authorizer.decide, Question("", authorizer.account, group=group))


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    if dns_subdomain_problems(name):
        msg = "Invalid service account name"
        raise EvaluationError(msg)
    if dns_label_problems(namespace):
        msg = "Invalid service account namespace"
        raise EvaluationError(msg)
    return Authorizer(authorizer.decide, (namespace, name))


def _resource(check: _GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        msg = "resource must not be empty"
        raise EvaluationError(msg)
    return ResourceCheck(check.decide, check.question._replace(resource=resource))


def _narrowing(field: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    """The function that sets one field of a question."""

    def narrowed(check: ResourceCheck, value: str) -> ResourceCheck:
        fields: dict[str, Any] = {field: value}
        return replace(check, question=check.question._replace(**fields))

    return narrowed


def _check(check: _PathCheck | ResourceCheck, verb: str) -> Decision:
    return check.decide(check.question._replace(verb=verb))


def _member(name: str, id_: str, parameters: tuple[Type, ...], result: Type, implementation: Callable[..., object]) -> Function:
    return Function(name, (Overload(id_, parameters, result, member=True, implementation=implementation),))


AUTHZ: Final = Library(
    "kubernetes.authz",
    functions=(
        _member("path", "authorizer_path", (AUTHORIZER, STRING), _PATH_CHECK, _path),
        _member("group", "authorizer_group", (AUTHORIZER, STRING), _GROUP_CHECK, _group),
        _member("serviceAccount", "authorizer_serviceaccount", (AUTHORIZER, STRING, STRING), AUTHORIZER, _service_account),
        _member("resource", "groupcheck_resource", (_GROUP_CHECK, STRING), RESOURCE_CHECK, _resource),
        *(
            _member(name, f"{prefix}_{name.lower()}", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _narrowing(field))
            for name, prefix, field in (
                ("subresource", "resourcecheck", "subresource"),
                ("namespace", "resourcecheck", "namespace"),
                ("name", "resourcecheck", "name"),
                ("fieldSelector", "authorizer", "field_selector"),
                ("labelSelector", "authorizer", "label_selector"),
            )
        ),
        Function(
            "check",
            (
                Overload("pathcheck_check", (_PATH_CHECK, STRING), _DECISION, member=True, implementation=_check),
                Overload("resourcecheck_check", (RESOURCE_CHECK, STRING), _DECISION, member=True, implementation=_check),
            ),
        ),
        _member("errored", "decision_errored", (_DECISION,), BOOL, lambda decision: bool(decision.error)),
        _member("error", "decision_error", (_DECISION,), STRING, lambda decision: decision.error),
        _member("allowed", "decision_allowed", (_DECISION,), BOOL, lambda decision: decision.allowed),
        _member("reason", "decision_reason", (_DECISION,), STRING, lambda decision: decision.reason),
    ),
    matches={
        AUTHORIZER.name: Authorizer,
        _PATH_CHECK.name: _PathCheck,
        _GROUP_CHECK.name: _GroupCheck,
        RESOURCE_CHECK.name: ResourceCheck,
        _DECISION.name: Decision,
    },
)
