"""The kinds of Kubernetes that come to clusters as CRDs, for the compilation of CRDs.

The rules of these kinds take as long to load as a tenth of the start of a server, and most servers never need them: they are loaded with
the first CRD of such a kind.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from kcp_py.bootstrap.upstream_kinds import upstream_kinds
from kcp_py.registry.catalog.upstream import UpstreamForm
from kcp_py.registry.resource import Converter

if TYPE_CHECKING:
    from kcp_py.apis.upstream.subresources.objects import ClusterObjects


class UpstreamKinds:
    """A `registry.catalog.upstream.UpstreamKinds` that knows all of them."""

    def __init__(self, objects: ClusterObjects | None = None, *, clock: Callable[[], float] = time.time) -> None:
        """Know the kinds.

        Args:
            objects: those of a server, for subresources; None where nothing is served.
            clock: Unix seconds.
        """
        self._clock = clock
        self._objects: Final = objects

    def forms(self, spec: Mapping[str, Any]) -> Mapping[str, UpstreamForm]:
        """`UpstreamKinds.forms`."""
        if not _names_one(spec):
            return {}
        from kcp_py.apis.upstream.forms import kind_forms  # noqa: PLC0415

        return kind_forms(spec, self._objects, self._clock)

    def converter(self, forms: Collection[UpstreamForm | None]) -> Converter | None:
        """`UpstreamKinds.converter`."""
        from kcp_py.apis.upstream.forms import KindForm, converter_of  # noqa: PLC0415

        return converter_of([form if isinstance(form, KindForm) else None for form in forms])

    def defines_own(self, spec: Mapping[str, Any]) -> bool:
        """`UpstreamKinds.defines_own`."""
        if not _names_one(spec):
            return False
        from kcp_py.apis.upstream.forms import is_own  # noqa: PLC0415

        return any(is_own(spec, version) for version in spec["versions"])


def _names_one(spec: Mapping[str, Any]) -> bool:
    kinds = upstream_kinds()
    return any((spec["group"], version["name"], spec["names"]["kind"]) in kinds for version in spec["versions"])
