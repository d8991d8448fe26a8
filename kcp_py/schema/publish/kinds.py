"""`PublishedKind`: the data of a resource that publication needs; names of models, operations and tags.

Source: apiextensions-apiserver `pkg/controller/openapi/builder`, apiserver `pkg/endpoints/installer.go`, kube-openapi `pkg/util`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
"""What the names of meta kinds begin with."""

_WORD: Final = re.compile(r"[^A-Za-z0-9]+", re.ASCII)


class PublishedSubresource(NamedTuple):
    """One subresource of a resource."""

    name: str
    """The last segment of the path."""
    verbs: Sequence[str]
    model: str = ""
    """The name of the model of bodies and answers; empty for that of the resource."""
    group_version_kind: Mapping[str, str] | None = None
    """The value of `x-kubernetes-group-version-kind` of its operations; None for that of the resource."""


class PublishedKind(NamedTuple):
    """One resource in one version."""

    group: str
    version: str
    kind: str
    list_kind: str
    plural: str
    namespaced: bool
    verbs: Sequence[str]
    patch_types: Sequence[str]
    """Media types of PATCH."""
    document: Mapping[str, Any]
    """The schema: of a CRD's version, or of a built-in kind with references to other models."""
    upstream_model: str = ""
    """The name that a typed kind's model has in Kubernetes, such as `io.k8s.api.core.v1.Pod`; empty for kinds of CRDs."""
    subresources: Sequence[PublishedSubresource] = ()
    selectable_fields: Sequence[str] = ()
    """The fields of a custom kind that field selectors can name, besides those of metadata."""

    @property
    def model(self) -> str:
        """The name of the kind's model."""
        return self.upstream_model or model_name(self.group, self.version, self.kind)

    @property
    def list_model(self) -> str:
        """The name of the list's model."""
        return f"{self.upstream_model}List" if self.upstream_model else model_name(self.group, self.version, self.list_kind)

    @property
    def root(self) -> str:
        """`/api/v1`, `/apis/<group>/<version>`."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def group_version_kind(self) -> dict[str, str]:
        """The value of `x-kubernetes-group-version-kind`, whose keys come sorted."""
        return {"group": self.group, "kind": self.kind, "version": self.version}

    @property
    def extensions(self) -> dict[str, Any]:
        """What a model of the kind is marked with."""
        marks: dict[str, Any] = {"x-kubernetes-group-version-kind": [self.group_version_kind]}
        if self.selectable_fields:
            marks["x-kubernetes-selectable-fields"] = [{"fieldPath": path} for path in self.selectable_fields]
        return marks

    @property
    def tag(self) -> str:
        """`rbacAuthorization_v1`."""
        words = _group_words(self.group)
        return f"{words[0].lower()}{''.join(map(_capitalized, words[1:]))}_{self.version}"

    @property
    def operation_infix(self) -> str:
        """`RbacAuthorizationV1`."""
        return "".join(map(_capitalized, (*_group_words(self.group), self.version)))


def model_name(group: str, version: str, kind: str) -> str:
    """The model of a kind that is not compiled in: its group read backwards, version and kind."""
    prefix = ".".join(reversed(group.split("."))) if group else "io.k8s.api.core"
    return f"{prefix}.{version}.{kind}"


def _group_words(group: str) -> list[str]:
    if not group:
        return ["core"]
    return [word for word in _WORD.split(group.removesuffix(".k8s.io")) if word] or ["group"]


def _capitalized(word: str) -> str:
    return word[:1].upper() + word[1:]
