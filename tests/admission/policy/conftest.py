"""A control plane in memory."""

from __future__ import annotations

from tests.server.handlers.conftest import api

__all__ = ["api"]
