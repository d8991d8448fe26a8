"""Policies and bindings as a cluster has configured them, parsed and shared by content.

Source: k8s.io/apiserver `pkg/admission/plugin/policy/generic` (`policy_source.go`, `accessor.go`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

import orjson

from kcp_py.admission.policy.matching import EVERY_REQUEST, Matching, parse_matching
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionKind
from kcp_py.apimachinery.meta.selectors import LabelSelector, label_selector_of

_KEPT_SELECTIONS: Final = 1000
"""Resources for which a cluster remembers its hooks."""


class Definition:
    """A policy. Equal policies of all clusters are one object, and its expressions are compiled when a request first matches."""

    __slots__ = (
        "__weakref__",
        "digest",
        "ignores_failures",
        "matching",
        "name",
        "param_kind",
        "reinvoked",
        "shows_authorizer",
        "shows_namespace",
        "shows_request",
        "spec",
    )

    def __init__(self, name: str, spec: bytes, digest: bytes) -> None:
        """Parse a policy with a valid `spec`, as JSON."""
        fields = orjson.loads(spec)
        self.name = name
        self.spec = spec
        self.digest = digest
        self.matching = parse_matching(fields.get("matchConstraints"))
        self.ignores_failures = fields.get("failurePolicy") == "Ignore"
        self.shows_namespace = b"namespaceObject" in spec
        """Whether an expression may use the namespace, which has to be read for that."""
        self.shows_authorizer = b"authorizer" in spec
        """Whether an expression may use the authorizer."""
        self.shows_request = b"request" in spec
        """Whether an expression may use the request."""
        self.reinvoked = fields.get("reinvocationPolicy") == "IfNeeded"
        kind = fields.get("paramKind")
        self.param_kind = None if kind is None else kind_of(kind)


def kind_of(kind: Mapping[str, str]) -> GroupVersionKind:
    """A `paramKind`."""
    group, slash, version = kind["apiVersion"].partition("/")
    return GroupVersionKind(group if slash else "", version if slash else group, kind["kind"])


class Parameters(NamedTuple):
    """The `paramRef` of a binding."""

    namespace: str
    name: str
    """Empty where a selector selects the parameters."""
    selector: LabelSelector | None
    denies_missing: bool


class Binding(NamedTuple):
    """A binding of a policy."""

    name: str
    policy: str
    matching: Matching
    parameters: Parameters | None
    actions: tuple[str, ...]
    """The `validationActions` of a ValidatingAdmissionPolicyBinding."""


class Hook(NamedTuple):
    """A policy with the bindings that make it effective."""

    definition: Definition
    bindings: Sequence[Binding]


class Hooks:
    """The effective policies of a cluster, by name. Immutable as seen from outside."""

    __slots__ = ("_all", "_selected")

    def __init__(self, hooks: Sequence[Hook] = ()) -> None:
        self._all = tuple(hooks)
        self._selected: dict[GroupResource, Sequence[Hook]] = {}

    def __bool__(self) -> bool:
        return bool(self._all)

    def lacks(self, resource: GroupResource) -> bool:
        """Whether no policy is about a resource, as far as it was asked for before."""
        return not self._all or self._selected.get(resource) == ()

    def known(self, resource: GroupResource) -> Sequence[Hook] | None:
        """What `of` has returned for a resource; None where it was not asked."""
        return self._selected.get(resource) if self._all else ()

    def of(self, resource: GroupResource, others: Sequence[GroupResource] = ()) -> Sequence[Hook]:
        """The policies that may select requests about a resource.

        Args:
            resource: the resource.
            others: resources of other groups with the same objects. They are the same at each call.
        """
        found = self._selected.get(resource)
        if found is None:
            names = (resource, *others)
            found = tuple(hook for hook in self._all if any(map(hook.definition.matching.may_select, names)))
            if len(self._selected) < _KEPT_SELECTIONS:
                self._selected[resource] = found
        return found


NO_HOOKS: Final = Hooks()
_shared: Final[WeakValueDictionary[bytes, Definition]] = WeakValueDictionary()


def parse_policy(policy: Mapping[str, Any]) -> Definition:
    """A stored policy.

    Raises:
        ValueError: other software has stored an invalid policy; also KeyError, TypeError and AttributeError.
    """
    name, spec = policy["metadata"]["name"], orjson.dumps(policy["spec"], option=orjson.OPT_SORT_KEYS)
    digest = sha256(b"%s\0%s\0%s" % (policy["kind"].encode(), name.encode(), spec)).digest()
    definition = _shared.get(digest)
    if definition is None:
        definition = _shared[digest] = Definition(name, spec, digest)
    return definition


def parse_binding(binding: Mapping[str, Any]) -> Binding:
    """A stored binding.

    Raises:
        ValueError: other software has stored an invalid binding; also KeyError, TypeError and AttributeError.
    """
    spec = binding["spec"]
    matching = spec.get("matchResources")
    reference = spec.get("paramRef")
    return Binding(
        binding["metadata"]["name"],
        spec["policyName"],
        EVERY_REQUEST if matching is None else parse_matching(matching),
        None if reference is None else _parameters(reference),
        tuple(spec.get("validationActions") or ()),
    )


def _parameters(reference: Mapping[str, Any]) -> Parameters:
    selector = reference.get("selector")
    return Parameters(
        reference.get("namespace") or "",
        reference.get("name") or "",
        None if selector is None else label_selector_of(selector),
        reference.get("parameterNotFoundAction") == "Deny",
    )


def hooks_of(policies: Sequence[Definition], bindings: Sequence[Binding]) -> Hooks:
    """The effective policies. Upstream does not define their order; here it is that of the names."""
    bound: dict[str, list[Binding]] = {}
    for binding in sorted(bindings, key=lambda binding: binding.name):
        bound.setdefault(binding.policy, []).append(binding)
    found = [Hook(policy, bound[policy.name]) for policy in sorted(policies, key=lambda policy: policy.name) if policy.name in bound]
    return Hooks(found) if found else NO_HOOKS
