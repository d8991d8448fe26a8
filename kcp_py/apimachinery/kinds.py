"""Group, version, kind and resource: the names of types."""

from __future__ import annotations

from typing import Final, NamedTuple


class GroupVersion(NamedTuple):
    """An API group and one of its versions; the core group is the empty text."""

    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class GroupResource(NamedTuple):
    """An API group and a resource (plural), as error messages write it: `deployments.apps`, `pods`."""

    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class GroupVersionResource(NamedTuple):
    """What a URL names."""

    group: str
    version: str
    resource: str

    @property
    def group_version(self) -> GroupVersion:
        return GroupVersion(self.group, self.version)

    @property
    def group_resource(self) -> GroupResource:
        return GroupResource(self.group, self.resource)


CRDS: Final = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
"""The resource that defines the custom resources of a cluster."""
NAMESPACES: Final = GroupVersionResource("", "v1", "namespaces")


class GroupVersionKind(NamedTuple):
    """What an object says it is."""

    group: str
    version: str
    kind: str

    @property
    def group_version(self) -> GroupVersion:
        return GroupVersion(self.group, self.version)

    @property
    def group_kind(self) -> str:
        """`Widget.example.com`, `ConfigMap`: the form of validation messages."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


def parse_group_version(text: str) -> GroupVersion:
    """Read `apiVersion`: `v1`, `apps/v1`.

    Raises:
        ValueError: more than one slash, worded as upstream words it.
    """
    match text.split("/"):
        case [version]:
            return GroupVersion("", version)
        case [group, version]:
            return GroupVersion(group, version)
        case _:
            raise ValueError(f"unexpected GroupVersion string: {text}")
