"""`UpstreamKinds`: what the compilation of CRDs asks about the kinds of Kubernetes that come to clusters as CRDs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from kcp_py.apimachinery.meta.table import Column
from kcp_py.registry.resource import Converter
from kcp_py.registry.scale import ScalePaths
from kcp_py.registry.strategy import Strategy
from kcp_py.registry.subresources import Subresource
from kcp_py.schema.contract import CompiledSchema


class UpstreamForm(Protocol):
    """One version of a CRD that defines a kind of Kubernetes."""

    @property
    def own(self) -> bool:
        """Whether the CRD has exactly the names and the schema that are published for the kind: clients have it compiled in."""
        ...

    @property
    def upstream_model(self) -> str:
        """The name under which Kubernetes publishes the type."""
        ...

    @property
    def document(self) -> Mapping[str, Any]:
        """The published schema, or that of the CRD with the extensions that it lacks."""
        ...

    @property
    def models(self) -> Mapping[str, Mapping[str, Any]]:
        """The targets of the `$ref`s in the document."""
        ...

    @property
    def schema(self) -> CompiledSchema | None:
        """The compiled published schema; None: the CRD's own is used."""
        ...

    def strategy(self, version: Mapping[str, Any]) -> Strategy:
        """The rules of the kind, with those of the version of the CRD."""
        ...

    def columns(self) -> Sequence[Column] | None:
        """The columns of the kind; None for the columns of the CRD."""
        ...

    def scale(self, version: Mapping[str, Any]) -> ScalePaths | None:
        """The paths of `/scale`; None where the version does not have it."""
        ...

    def subresources(self) -> Sequence[Subresource]:
        """The subresources that the kind has beyond `/status` and `/scale`, in the order of discovery."""
        ...

    def field_labels(self) -> Mapping[str, str]:
        """Field selectors of the kind: label -> dotted path."""
        ...


class UpstreamKinds(Protocol):
    """Finds the kinds of Kubernetes among CRDs."""

    def forms(self, spec: Mapping[str, Any]) -> Mapping[str, UpstreamForm]:
        """The versions of a CRD that define a kind of Kubernetes, by name. `spec` is that of the CRD."""
        ...

    def converter(self, forms: Collection[UpstreamForm | None]) -> Converter | None:
        """The conversion between the versions of a CRD, one form for each; None where they differ in `apiVersion` alone."""
        ...

    def defines_own(self, spec: Mapping[str, Any]) -> bool:
        """Whether a version of a CRD has a form that is `own`. Compiles nothing."""
        ...


class NoUpstreamKinds:
    """Takes every CRD for a custom resource."""

    def forms(self, spec: Mapping[str, Any]) -> Mapping[str, UpstreamForm]:
        """`UpstreamKinds.forms`."""
        del spec
        return {}

    def converter(self, forms: Collection[UpstreamForm | None]) -> Converter | None:
        """`UpstreamKinds.converter`."""
        del forms
        return None

    def defines_own(self, spec: Mapping[str, Any]) -> bool:
        """`UpstreamKinds.defines_own`."""
        del spec
        return False
