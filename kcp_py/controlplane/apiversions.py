"""`ServedVersions`: which versions of the API are served, by the rules of kube-apiserver's `--runtime-config`.

Source: kubernetes `staging/src/k8s.io/apiserver/pkg/server/resourceconfig/helpers.go`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from kcp_py.registry.resource import ServedResource

KCP_GROUPS: Final = ("kcp.io", "kcp-py.io", "kcp-py.dev")
"""Ends of the names of groups that kube-apiserver does not know."""

_LEVELS: Final = {"alpha": "api/alpha", "beta": "api/beta", "": "api/ga"}
_VERSION: Final = re.compile(r"v[0-9]+(?:(alpha|beta)[0-9]+)?")
_REQUIRED: Final = frozenset((("", "v1"), ("apiextensions.k8s.io", "v1"), ("rbac.authorization.k8s.io", "v1")))
"""Groups and versions that the server itself needs."""


class ServedVersions:
    """Decides about each resource of the server."""

    def __init__(self, settings: Sequence[str], *, single_cluster: bool) -> None:
        """Prepare.

        Args:
            settings: `api/beta=false`, `apps/v1=true`, `apps/v1/deployments=false`, `v1=true`. Values other than `false` are true, as
                upstream.
            single_cluster: resources of kcp are absent, and beta versions have to be asked for, as in kube-apiserver.
        """
        pairs = (one.partition("=") for one in settings)
        self._settings = {name.strip(): value.strip().lower() not in {"false", "0", "f"} for name, _, value in pairs}
        self._single = single_cluster

    def serves(self, resource: ServedResource) -> bool:
        """Whether the resource is served."""
        group, version = resource.group, resource.version
        if self._single and group.endswith(KCP_GROUPS):
            return False
        if (group, version) in _REQUIRED:
            return True
        match = _VERSION.fullmatch(version)
        level = (match[1] or "") if match is not None else ""
        name = f"{group}/{version}" if group else version
        for setting in (f"{name}/{resource.resource}", name, _LEVELS[level], "api/all"):
            if setting in self._settings:
                return self._settings[setting]
        return not self._single or not level
