"""`StoredResource`: a resource of every logical cluster that its author describes in code, and whose objects the server stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kcp_py.apimachinery.fielderrors import aggregate
from kcp_py.registry.catalog.compilation import Settings, compile_crd
from kcp_py.registry.conversion import NoWebhooks
from kcp_py.registry.resource import Converter, ServedResource
from kcp_py.registry.strategy import Strategy
from kcp_py.schema.crd.validation import default_crd, validate_crd


@dataclass(frozen=True, kw_only=True)
class StoredVersion:
    """A further version of a `StoredResource`. Its fields are those of the resource for its own version."""

    version: str
    schema: Mapping[str, Any]
    strategy: Strategy | None = None
    columns: Sequence[Mapping[str, Any]] = ()
    selectable_fields: Sequence[str] = ()
    status: bool = False
    scale: Mapping[str, str] | None = None
    served: bool = True
    """Whether clients can use it. A version that is not served may still be the stored one."""
    deprecated: bool = False
    deprecation_warning: str = ""
    """Sent with every answer of a deprecated version; by default a text that names the version."""


@dataclass(frozen=True, kw_only=True)
class StoredResource:
    """A resource as a CRD would define it, with rules of its own in code; clusters have it without a CRD.

    ::

        class PortRules(Strategy):
            def validate(self, obj): ...

        StoredResource(
            group="example.com", version="v1", resource="ports", kind="Port", schema=SCHEMA, strategy=PortRules(), status=True
        )
    """

    group: str
    version: str
    resource: str
    """The plural."""
    kind: str
    schema: Mapping[str, Any]
    """OpenAPI v3, structural, as in a CRD. Objects are pruned, filled with defaults and validated by it, CEL rules included."""
    strategy: Strategy | None = None
    """What the schema cannot express. By default the rules of custom resources."""
    singular: str = ""
    """By default the kind in lower case."""
    namespaced: bool = True
    columns: Sequence[Mapping[str, Any]] = ()
    """Of the Table form, as `additionalPrinterColumns` of a CRD; by default name and age."""
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()
    selectable_fields: Sequence[str] = ()
    """JSON paths that field selectors may name, such as `.spec.colour`."""
    status: bool = False
    """Whether `/status` is served. Writes of the object leave the status alone then, and the other way round."""
    scale: Mapping[str, str] | None = None
    """The paths of `/scale`, as `subresources.scale` of a CRD: `specReplicasPath`, `statusReplicasPath`, `labelSelectorPath`."""
    list_kind: str = ""
    """By default the kind with `List`."""
    served_version: bool = True
    """Whether clients can use `version`: see `StoredVersion.served`."""
    deprecated: bool = False
    deprecation_warning: str = ""
    versions: Sequence[StoredVersion] = ()
    """Further versions. Every object is readable and writable in every served version."""
    storage_version: str = ""
    """In which objects are written; by default `version`. Objects that are stored in another version stay readable."""
    converter: Converter | None = None
    """Brings objects to the version of an `apiVersion`; without one, versions differ in `apiVersion` alone."""

    def served(self, root: str) -> ServedResource:
        """The resource as clusters serve it, in its own version. `root` is the prefix of the store's keys.

        Raises:
            ValueError: as `served_versions`.
        """
        return next(one for one in self.served_versions(root) if one.version == self.version)

    def served_versions(self, root: str) -> Sequence[ServedResource]:
        """The resource as clusters serve it, in every served version. `root` is the prefix of the store's keys.

        Raises:
            ValueError: a CRD with this content would be refused.
        """
        crd = self.definition()
        accepted = [{"type": kind, "status": "True"} for kind in ("NamesAccepted", "Established")]
        stored = [version["name"] for version in crd["spec"]["versions"] if version["storage"]]
        crd["status"] = {"acceptedNames": crd["spec"]["names"], "conditions": accepted, "storedVersions": stored}
        if problems := validate_crd(crd):
            raise ValueError(f"{crd['metadata']['name']}: {aggregate(problems)}")
        strategies = {one.version: one.strategy for one in self._versions}
        return [
            replace(one, strategy=strategies[one.version] or one.strategy, converter=self.converter)
            for one in compile_crd(crd, Settings(root, NoWebhooks(), identity="")).resources
        ]

    def definition(self) -> dict[str, Any]:
        """The CRD that defines the same resource. It does not have what only code expresses: the strategy and the converter."""
        names: dict[str, Any] = {"plural": self.resource, "kind": self.kind, "singular": self.singular or self.kind.lower()}
        names["listKind"] = self.list_kind or f"{self.kind}List"
        if self.short_names:
            names["shortNames"] = list(self.short_names)
        if self.categories:
            names["categories"] = list(self.categories)
        storage = self.storage_version or self.version
        crd: dict[str, Any] = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.resource}.{self.group or 'core'}"},
            "spec": {
                "group": self.group,
                "scope": "Namespaced" if self.namespaced else "Cluster",
                "names": names,
                "versions": [_version(one, storage=one.version == storage) for one in self._versions],
            },
        }
        default_crd(crd)
        return crd

    @property
    def _versions(self) -> Sequence[StoredVersion]:
        own = StoredVersion(
            version=self.version,
            schema=self.schema,
            strategy=self.strategy,
            columns=self.columns,
            selectable_fields=self.selectable_fields,
            status=self.status,
            scale=self.scale,
            served=self.served_version,
            deprecated=self.deprecated,
            deprecation_warning=self.deprecation_warning,
        )
        return (own, *self.versions)


def _version(described: StoredVersion, *, storage: bool) -> dict[str, Any]:
    """One entry of `spec.versions` of a CRD."""
    schema = {"openAPIV3Schema": dict(described.schema)}
    version: dict[str, Any] = {"name": described.version, "served": described.served, "storage": storage, "schema": schema}
    if described.deprecated:
        version["deprecated"] = True
    if described.deprecation_warning:
        version["deprecationWarning"] = described.deprecation_warning
    if described.columns:
        version["additionalPrinterColumns"] = [dict(column) for column in described.columns]
    if described.selectable_fields:
        version["selectableFields"] = [{"jsonPath": path} for path in described.selectable_fields]
    subresources: dict[str, Any] = {"status": {}} if described.status else {}
    if described.scale is not None:
        subresources["scale"] = dict(described.scale)
    if subresources:
        version["subresources"] = subresources
    return version
