"""The mark of CRDs that `kcp-py builtin install` made: only `kcp-py builtin uninstall` deletes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

INSTALLED_ANNOTATION: Final = "kcp-py.io/installed-by"
"""The annotation of such a CRD. Clients may remove it; the CRD is then like any other."""
INSTALLER: Final = "builtin"


def is_installed(crd: Mapping[str, Any]) -> bool:
    """Whether a CRD carries the mark."""
    annotations = crd["metadata"].get("annotations")
    return isinstance(annotations, Mapping) and annotations.get(INSTALLED_ANNOTATION) == INSTALLER


def marked_as_installed(crd: Mapping[str, Any]) -> dict[str, Any]:
    """The CRD with the mark."""
    metadata = crd["metadata"]
    annotations = {**(metadata.get("annotations") or {}), INSTALLED_ANNOTATION: INSTALLER}
    return {**crd, "metadata": {**metadata, "annotations": annotations}}


def deletion_refusal(crd: Mapping[str, Any]) -> str:
    """The reason why a client may not delete a CRD; empty if it may. A deletion that has begun continues."""
    metadata = crd["metadata"]
    if not is_installed(crd) or metadata.get("deletionTimestamp"):
        return ""
    return (
        f'this kind was installed by "kcp-py builtin install", and all its objects would be deleted: use '
        f'"kcp-py builtin uninstall {metadata["name"]}", or remove the annotation {INSTALLED_ANNOTATION} first'
    )
