"""A registry with the server's own plugins, on each embedded store."""

from __future__ import annotations

from tests.registry.store.conftest import world

__all__ = ["world"]
