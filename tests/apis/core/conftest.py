"""A server for the tests of kinds as clients meet them."""

from __future__ import annotations

from tests.server.handlers.conftest import api

__all__ = ["api"]
