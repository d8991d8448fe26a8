"""`AnonymousAccess`: which requests without credentials are made as `system:anonymous`."""

from __future__ import annotations

from typing import Final, NamedTuple


class AnonymousAccess(NamedTuple):
    """The rule (k8s.io/apiserver `request/anonymous`)."""

    enabled: bool = True
    paths: frozenset[str] = frozenset()
    """If not empty, only requests for these paths."""

    def allows(self, path: str) -> bool:
        """Whether a request for the path may be anonymous. The path is decoded and without the prefix of the cluster."""
        return self.enabled and (not self.paths or path in self.paths)


ALL_ANONYMOUS: Final = AnonymousAccess()
"""Every request may be anonymous."""
