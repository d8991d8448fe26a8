"""`StoredResource`: a resource of every logical cluster that its author describes in code, and whose objects the server stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kcp_py.apimachinery.fielderrors import aggregate
from kcp_py.registry.catalog.compilation import Settings, compile_crd
from kcp_py.registry.conversion import NoWebhooks
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.strategy import Strategy
from kcp_py.schema.crd.validation import default_crd, validate_crd
from kcp_py.storage.keys import resource_keys


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

    def served(self, root: str) -> ServedResource:
        """The resource as clusters serve it. `root` is the prefix of the store's keys.

        Raises:
            ValueError: a CRD with this content would be refused.
        """
        crd = self._crd()
        default_crd(crd)
        if problems := validate_crd(crd):
            raise ValueError(f"{crd['metadata']['name']}: {aggregate(problems)}")
        (compiled,) = compile_crd(crd, Settings(root, NoWebhooks())).resources
        keys = resource_keys(root, self.group, self.resource, namespaced=self.namespaced)
        return replace(compiled, keys=keys, strategy=self.strategy or compiled.strategy)

    def _crd(self) -> dict[str, Any]:
        names: dict[str, Any] = {"plural": self.resource, "kind": self.kind, "singular": self.singular or self.kind.lower()}
        if self.short_names:
            names["shortNames"] = list(self.short_names)
        if self.categories:
            names["categories"] = list(self.categories)
        version: dict[str, Any] = {"name": self.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": self.schema}}
        if self.columns:
            version["additionalPrinterColumns"] = [dict(column) for column in self.columns]
        if self.selectable_fields:
            version["selectableFields"] = [{"jsonPath": path} for path in self.selectable_fields]
        subresources: dict[str, Any] = {"status": {}} if self.status else {}
        if self.scale is not None:
            subresources["scale"] = dict(self.scale)
        if subresources:
            version["subresources"] = subresources
        accepted = [{"type": kind, "status": "True"} for kind in ("NamesAccepted", "Established")]
        return {
            "metadata": {"name": f"{self.resource}.{self.group or 'core'}"},
            "spec": {
                "group": self.group,
                "scope": "Namespaced" if self.namespaced else "Cluster",
                "names": names,
                "versions": [version],
            },
            "status": {"acceptedNames": names, "conditions": accepted, "storedVersions": [self.version]},
        }
