"""Rules of FlowSchemas.

Source: kubernetes `pkg/apis/flowcontrol/validation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import duplicate, forbidden, invalid, not_supported, required
from kcp_py.apimachinery.meta import names
from kcp_py.apis.upstream.validation.fields import Object, Problems, name
from kcp_py.apis.upstream.validation.structs import Many, Pointer, Struct, printed, values_of
from kcp_py.bootstrap.flowcontrol import MANDATORY, flow_control

_MAX_PRECEDENCE: Final = 10000
_DISTINGUISHERS: Final = ("ByNamespace", "ByUser")
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_SUBJECTS: Final = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}
"""Kind of a subject -> the field that it needs. The others are forbidden."""

_NAMED: Final = Struct({"Name": ("name", "")})
_SUBJECT: Final = Struct(
    {
        "Kind": ("kind", ""),
        "User": ("user", Pointer(_NAMED)),
        "Group": ("group", Pointer(_NAMED)),
        "ServiceAccount": ("serviceAccount", Pointer(Struct({"Namespace": ("namespace", ""), "Name": ("name", "")}))),
    }
)
_RESOURCE_RULE: Final = Struct(
    {
        "Verbs": ("verbs", None),
        "APIGroups": ("apiGroups", None),
        "Resources": ("resources", None),
        "ClusterScope": ("clusterScope", False),
        "Namespaces": ("namespaces", None),
    }
)
_RULE: Final = Struct(
    {
        "Subjects": ("subjects", Many(_SUBJECT)),
        "ResourceRules": ("resourceRules", Many(_RESOURCE_RULE)),
        "NonResourceRules": ("nonResourceRules", Many(Struct({"Verbs": ("verbs", None), "NonResourceURLs": ("nonResourceURLs", None)}))),
    }
)
_DISTINGUISHER: Final = Struct({"Type": ("type", "")})
_SPEC: Final = Struct(
    {
        "PriorityLevelConfiguration": ("priorityLevelConfiguration", _NAMED),
        "MatchingPrecedence": ("matchingPrecedence", 0),
        "DistinguisherMethod": ("distinguisherMethod", Pointer(_DISTINGUISHER)),
        "Rules": ("rules", Many(_RULE)),
    }
)


def flow_schema_problems(obj: Object) -> Problems:
    """Of a new FlowSchema."""
    title, spec = obj["metadata"].get("name", ""), obj["spec"]
    yield from _spec_problems(title, spec)
    if title in MANDATORY and values_of(spec, _SPEC) != values_of(flow_control()["flowschemas"][title], _SPEC):
        yield invalid("spec", printed(spec, _SPEC), f"spec of '{title}' must equal the fixed value")


def condition_types_problems(obj: Object, old: Object) -> Problems:
    """Of a status: every condition has a type, and no two the same."""
    del old
    seen: set[str] = set()
    for index, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
        path, kind = f"status.conditions[{index}].type", condition.get("type", "")
        if kind in seen:
            yield duplicate(path, kind)
        seen.add(kind)
        if not kind:
            yield required(path)


def _spec_problems(title: str, spec: Object) -> Problems:
    path, precedence = "spec.matchingPrecedence", spec.get("matchingPrecedence", 0)
    if precedence <= 0:
        yield invalid(path, precedence, "must be a positive value")
    if precedence > _MAX_PRECEDENCE:
        yield invalid(path, precedence, f"must not be greater than {_MAX_PRECEDENCE}")
    if precedence == 1 and title != "exempt":
        yield invalid(path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _DISTINGUISHERS:
        yield not_supported("spec.distinguisherMethod.type", printed(method, _DISTINGUISHER), _DISTINGUISHERS)
    path, level = "spec.priorityLevelConfiguration.name", (spec.get("priorityLevelConfiguration") or {}).get("name", "")
    if level:
        yield from name(level, path)
    else:
        yield required(path, "must reference a priority level")
    for index, rule in enumerate(spec.get("rules") or ()):
        yield from _rule_problems(rule, f"spec.rules[{index}]")


def _rule_problems(rule: Object, path: str) -> Problems:
    subjects, resource_rules, other_rules = (rule.get(member) or () for member in ("subjects", "resourceRules", "nonResourceRules"))
    if not subjects:
        yield required(f"{path}.subjects", "subjects must contain at least one value")
    for index, subject in enumerate(subjects):
        yield from _subject_problems(subject, f"{path}.subjects[{index}]")
    if not resource_rules and not other_rules:
        yield required(path, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for index, inner in enumerate(resource_rules):
        yield from _resource_rule_problems(inner, f"{path}.resourceRules[{index}]")
    for index, inner in enumerate(other_rules):
        yield from _path_rule_problems(inner, f"{path}.nonResourceRules[{index}]")


def _subject_problems(subject: Object, path: str) -> Problems:
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        yield not_supported(f"{path}.kind", kind, sorted(_SUBJECTS))
        return
    member = _SUBJECTS[kind]
    yield from _subject_fields(kind, subject.get(member), f"{path}.{member}")
    for other, field in _SUBJECTS.items():
        if other != kind and subject.get(field) is not None:
            yield forbidden(f"{path}.{field}", f"{field} is forbidden when subject kind is not '{other}'")


def _subject_fields(kind: str, fields: Object | None, path: str) -> Problems:
    if fields is None:
        yield required(path, f"{_SUBJECTS[kind]} is required when subject kind is '{kind}'")
        return
    title = fields.get("name", "")
    if not title:
        yield required(f"{path}.name")
    elif kind == "ServiceAccount" and title != "*":
        yield from name(title, f"{path}.name")
    if kind != "ServiceAccount":
        return
    if namespace := fields.get("namespace", ""):
        yield from name(namespace, f"{path}.namespace", names.dns_label_problems)
    else:
        yield required(f"{path}.namespace", "must specify namespace for service account")


def _verb_problems(rule: Object, path: str) -> Problems:
    verbs: Sequence[str] = rule.get("verbs") or ()
    if not verbs:
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    elif "*" in verbs:
        yield from _alone(verbs, f"{path}.verbs", "verbs")
    elif not set(verbs) <= set(_VERBS):
        yield not_supported(f"{path}.verbs", list(verbs), _VERBS)


def _alone(values: Sequence[str], path: str, noun: str) -> Problems:
    """A wildcard stands alone."""
    if "*" in values and len(values) > 1:
        yield invalid(path, list(values), f"if '*' is present, must not specify other {noun}")


def _resource_rule_problems(rule: Object, path: str) -> Problems:
    yield from _verb_problems(rule, path)
    for member, noun in (("apiGroups", "api group"), ("resources", "resource")):
        if not rule.get(member):
            yield required(f"{path}.{member}", f"resource rules must supply at least one {noun}")
        yield from _alone(rule.get(member) or (), f"{path}.{member}", f"{noun}s")
    namespaces: Sequence[Any] = rule.get("namespaces") or ()
    if not namespaces and not rule.get("clusterScope"):
        yield required(f"{path}.namespaces", "resource rules that are not cluster scoped must supply at least one namespace")
    elif "*" in namespaces:
        yield from _alone(namespaces, f"{path}.namespaces", "namespaces")
    else:
        for index, namespace in enumerate(namespaces):
            for text in names.dns_label_problems(namespace):
                yield invalid(f"{path}.namespaces[{index}]", namespace, f"each member of this list must be '*' or a DNS-1123 label; {text}")


def _path_rule_problems(rule: Object, path: str) -> Problems:
    yield from _verb_problems(rule, path)
    path, urls = f"{path}.nonResourceURLs", rule.get("nonResourceURLs") or ()
    if not urls:
        yield required(path, "nonResourceURLs must contain at least one value")
    elif "*" in urls:
        yield from _alone(urls, path, "non-resource URLs")
    else:
        for index, url in enumerate(urls):
            yield from _url_problems(url, f"{path}[{index}]")


def _url_problems(url: str, path: str) -> Problems:
    problem = ""
    if not url:
        problem = "must not be empty"
    elif not url.startswith("/"):
        problem = "must start with slash"
    elif " " in url:
        problem = "must not contain white-space"
    elif "//" in url:
        problem = "must not contain double slash"
    elif (stars := url.count("*")) > 1 or (stars and not url.endswith("/*")):
        problem = "wildcard can only do suffix matching"
    if problem:
        yield invalid(path, url, problem)
