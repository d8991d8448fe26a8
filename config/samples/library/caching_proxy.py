"""A caching proxy in front of the API server of a kubeconfig, which tells every ten seconds how much work it has taken off the server.

::

    python config/samples/library/caching_proxy.py ~/.kube/config 8001 &
    alias k='kubectl --server https://127.0.0.1:8001 --certificate-authority .kcp-proxy/pki/ca.crt --token "$TOKEN"'
    k get pods -o yaml
    k get pods --watch -o name

Each client sends its own token, and reads what the API server lets it read. Everything but reads of these resources is passed on.
"""

import asyncio
import logging
import sys
from pathlib import Path

from kcp_py import CachingProxy, Options, ProxySettings, serve_proxy

log = logging.getLogger("proxy")

SETTINGS = ProxySettings(
    resources=("configmaps", "pods", "services", "deployments.apps"),
    cache_bytes=64 * 1024 * 1024,
    # Reads of the newest state may be a moment behind other clients, and never behind writes through this proxy.
    stale_ok=True,
)


async def report(proxy: CachingProxy) -> None:
    """Log the counts, and the size of each cache."""
    while True:
        await asyncio.sleep(10)
        log.info("%s", dict(proxy.counts))
        for cache in proxy.caches:
            log.info("%s: %d bytes at version %d", cache.place.path, cache.size, cache.version)


async def main(kubeconfig: str, port: int) -> None:
    """Serve on a loopback address until interrupted."""
    options = Options(secure_port=port, root_directory=Path(".kcp-proxy"))
    async with CachingProxy.of_kubeconfig(kubeconfig, settings=SETTINGS) as proxy:
        reporting = asyncio.create_task(report(proxy))
        try:
            await serve_proxy(proxy, options, on_ready=lambda url: log.info("serving %s", url))
        finally:
            reporting.cancel()


if __name__ == "__main__":
    logging.basicConfig(format="%(message)s")
    log.setLevel(logging.INFO)
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
