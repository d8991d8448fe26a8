"""Users for the reviews."""

from tests.authz.conftest import api

__all__ = ["api"]
