"""`Rule`: which writes a function is asked about.

Source of the terms: `rules` of webhook configurations (admissionregistration.k8s.io/v1 `RuleWithOperations`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple, TypedDict, get_args

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.meta.selectors import LabelSelector, parse_label_selector
from kcp_py.logicalcluster import Name, parse_name
from kcp_py.registry.admission import Attributes, Operation

_OPERATIONS: Final = frozenset(get_args(Operation))


class RuleSettings(TypedDict, total=False):
    """The arguments of `Rule` but for the resources."""

    operations: Collection[str]
    clusters: Collection[str] | None
    namespaces: Collection[str] | None
    namespaced: bool | None
    labels: str


class _Pattern(NamedTuple):
    group: str
    """`*` for all."""
    resource: str
    subresource: str
    """Empty for the object itself, `*` for all and the object itself."""

    def matches(self, resource: GroupResource, subresource: str) -> bool:
        return (
            self.group in {"*", resource.group}
            and self.resource in {"*", resource.resource}
            and self.subresource in {"*", subresource}
        )  # fmt: skip


class Rule:
    """Which writes a function is asked about. Everything that is stated has to hold.

    Attributes:
        operations: which it asks for.
        resources: the resources, if all are named; None where patterns may match any.
    """

    def __init__(
        self,
        resources: Sequence[str] = (),
        *,
        operations: Collection[str] = ("CREATE", "UPDATE"),
        clusters: Collection[str] | None = None,
        namespaces: Collection[str] | None = None,
        namespaced: bool | None = None,
        labels: str = "",
    ) -> None:
        """Make a rule.

        Args:
            resources: such as `configmaps`, `deployments.apps`, `deployments.apps/scale`, `*.apps`, `*`, `*/*`. Empty: every resource, and
                no subresource.
            operations: `CREATE`, `UPDATE`, `DELETE`, `CONNECT`, or `*` for all.
            clusters: names of logical clusters; None for all.
            namespaces: names of namespaces; None for all, and for objects without.
            namespaced: whether the resources have namespaces; None for both.
            labels: a selector that the labels of the new object or of the old one match.

        Raises:
            TypeError: a resource is not a text, such as the function of a decorator without brackets.
            ValueError: one of the texts is not what it should be.
        """
        self._patterns = tuple(_parse(one) for one in resources or ("*",))
        self.operations: Collection[Operation] = _operations_of(operations)
        named = all("*" not in pattern[:2] for pattern in self._patterns)
        self.resources = frozenset(GroupResource(one.group, one.resource) for one in self._patterns) if named else None
        self._clusters = None if clusters is None else frozenset(parse_name(one) for one in _names(clusters, "clusters"))
        self._namespaces = None if namespaces is None else frozenset(_names(namespaces, "namespaces"))
        self._namespaced = namespaced
        self._labels: LabelSelector | None = parse_label_selector(labels) if labels else None

    def ignores(self, cluster: Name, resource: GroupResource) -> bool:
        """Whether no write of a resource in a cluster matches."""
        if self._clusters is not None and cluster not in self._clusters:
            return True
        return not any(pattern.matches(resource, pattern.subresource) for pattern in self._patterns)

    def matches(self, attributes: Attributes) -> bool:
        """Whether a write matches, of which operation, cluster and resource are known to do so."""
        resource, subresource = attributes.resource, attributes.subresource
        if not any(pattern.matches(resource.group_resource, subresource) for pattern in self._patterns):
            return False
        if self._namespaced is not None and resource.namespaced is not self._namespaced:
            return False
        if self._namespaces is not None and attributes.namespace not in self._namespaces:
            return False
        selector = self._labels
        return selector is None or any(selector.matches(_labels_of(one)) for one in (attributes.obj, attributes.old) if one is not None)


def _labels_of(obj: dict[str, Any]) -> dict[str, str]:
    metadata = obj.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return labels if isinstance(labels, dict) else {}


def _names(given: Collection[str], what: str) -> Collection[str]:
    if isinstance(given, str):
        raise ValueError(f"{what} is a list of names, and not a text")  # noqa: TRY004 - as all other mistakes of a rule
    return given


def _operations_of(given: Collection[str]) -> frozenset[Operation]:
    found = {given} if isinstance(given, str) else set(given)
    if unknown := found - _OPERATIONS - {"*"}:
        raise ValueError(f'unknown operations: {", ".join(sorted(unknown))}; there are {", ".join(sorted(_OPERATIONS))}, and "*"')
    if not found:
        raise ValueError("a rule without operations matches nothing")
    return _OPERATIONS if "*" in found else frozenset(one for one in _OPERATIONS if one in found)


def _parse(text: str) -> _Pattern:
    if not isinstance(text, str):
        raise TypeError(f'{text!r} is not the name of a resource; a rule is written with brackets: @control_plane.mutating("configmaps")')
    path, slash, subresource = text.partition("/")
    resource, _, group = path.partition(".")
    if not resource or (slash and not subresource) or " " in text or (path.endswith(".")):
        raise ValueError(f'"{text}" is not a resource such as configmaps, deployments.apps or deployments.apps/scale')
    # `*` alone stands for the resources of all groups.
    return _Pattern(group or ("*" if resource == "*" else ""), resource, subresource)
