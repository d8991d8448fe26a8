"""PartialObjectMetadata: objects with nothing but their metadata, for clients that ask `as=PartialObjectMetadata`.

Source: apimachinery `pkg/apis/meta/v1` `types.go`, apiserver `endpoints/handlers/response.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

META_V1: Final = "meta.k8s.io/v1"
META_V1BETA1: Final = "meta.k8s.io/v1beta1"
META_VERSIONS: Final = (META_V1, META_V1BETA1)


def partial_object_metadata(obj: Mapping[str, Any], api_version: str = META_V1) -> dict[str, Any]:
    """The object reduced to its metadata, which is shared with `obj`, not copied."""
    return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": obj.get("metadata") or {}}
