"""The registry whose store can be stopped in the middle of reads and writes, as for the tests of `registry`."""

from tests.registry.conftest import elsewhere, registry, storage

__all__ = ["elsewhere", "registry", "storage"]
