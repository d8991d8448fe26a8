"""The conformance suite of clients.

The test of a client subclasses `ClientSuite` and provides a client of a server with the two logical clusters `team-a` and `team-b`::

    class TestMyClient(ClientSuite):
        @pytest.fixture
        async def client(self):
            async with ... as client:
                yield client

The server is fresh for every test, and its controllers run. The tests run on anyio's pytest plugin with asyncio.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("kcp_py.testing.client_reads", "kcp_py.testing.client_watches", "kcp_py.testing.client_writes")

from kcp_py.testing.client_reads import ClientReadTests  # noqa: E402 - assertions are rewritten at import
from kcp_py.testing.client_watches import ClientWatchTests  # noqa: E402
from kcp_py.testing.client_writes import ClientWriteTests  # noqa: E402

__all__ = ["ClientSuite"]


@pytest.mark.anyio
class ClientSuite(ClientReadTests, ClientWatchTests, ClientWriteTests):
    """The guarantees of `kcp_py.client.contract`, verb by verb."""
