"""`kcp-py proxy`: a caching proxy in front of a Kubernetes API server."""

from __future__ import annotations

import asyncio
import ipaddress
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kcp_py.cli.exits import CommandError, UsageError
from kcp_py.cli.manual import KUBECONFIG, SERVING_EXITS, Documented, Manual
from kcp_py.cli.structlogimport import import_structlog
from kcp_py.options import Options
from kcp_py.options.kinds import DURATION, SIZE

if TYPE_CHECKING:
    from kcp_py.proxy.application import ProxySettings


@click.command(
    cls=Documented,
    manual=Manual(
        (
            "kcp-py proxy --kubeconfig ~/.kube/config",
            'kubectl --server https://127.0.0.1:8001 --certificate-authority .kcp-proxy/pki/ca.crt --token "$TOKEN" get pods',
            "kcp-py proxy --listen 0.0.0.0:8443 --tls-cert-file tls.crt --tls-private-key-file tls.key --resources pods,services",
        ),
        see_also=("start", "aggregated"),
        exits=SERVING_EXITS,
        environment=(KUBECONFIG,),
        files=(
            ("~/.kube/config", "Used where neither --kubeconfig nor KUBECONFIG is given."),
            (".kcp-proxy", "The root directory (--root-directory): pki/ca.crt is the authority that clients have to trust."),
        ),
    ),
)
@click.option("--kubeconfig", metavar="FILE", help="Of the API server, with credentials that may list and watch. Default: as of kubectl.")
@click.option("--context", metavar="NAME", help="Of the kubeconfig. Default: the current one.")
@click.option("--listen", default="127.0.0.1:8001", show_default=True, metavar="ADDRESS:PORT", help="Where clients connect.")
@click.option("--resources", default="*", show_default=True, metavar="LIST", help="To cache: pods, deployments.apps, or '*,-secrets'.")
@click.option("--cache-size", default="256Mi", show_default=True, metavar="SIZE", help="Bound of all caches, approximately.")
@click.option("--cache-idle", default="10m", show_default=True, metavar="DURATION", help="Caches that are unused for so long are dropped.")
@click.option(
    "--stale-ok",
    is_flag=True,
    help="Answer reads of the newest state from the cache, too. They see all writes that went through the proxy.",
)
@click.option("--decision-ttl", default="10s", show_default=True, metavar="DURATION", help="How long permissions of callers are kept.")
@click.option("--offline-ttl", default="1h", show_default=True, metavar="DURATION", help="How long, while the API server is unreachable.")
@click.option(
    "--share-credentials",
    is_flag=True,
    help="Requests without credentials get those of the kubeconfig. Loopback only, plain HTTP.",
)
@click.option(
    "--tls-cert-file", type=click.Path(path_type=Path), metavar="FILE", help="Serving certificate (PEM). Default: one of its own."
)
@click.option("--tls-private-key-file", type=click.Path(path_type=Path), metavar="FILE", help="Its private key (PEM).")
@click.option(
    "--client-ca-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Authorities (PEM) of client certificates, whose users the proxy impersonates.",
)
@click.option("--root-directory", type=click.Path(path_type=Path), default=".kcp-proxy", show_default=True, help="Of files that TLS needs.")
def proxy(
    kubeconfig: str | None,
    context: str | None,
    *,
    listen: str,
    resources: str,
    cache_size: str,
    cache_idle: str,
    stale_ok: bool,
    decision_ttl: str,
    offline_ttl: str,
    share_credentials: bool,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    client_ca_file: Path | None,
    root_directory: Path,
) -> int:
    """Serve a caching proxy in front of a Kubernetes API server.

    Gets, lists and watches are answered from one list and watch of each resource; everything else is passed on. Clients send their own
    tokens: the API server says what each of them may read.
    """
    import_structlog()
    from kcp_py.proxy.application import ProxySettings
    from kcp_py.telemetry.logs import configure_logging

    address, port = _address(listen)
    if (tls_cert_file is None) != (tls_private_key_file is None):
        raise UsageError("--tls-cert-file and --tls-private-key-file need each other")
    if share_credentials and not ipaddress.ip_address(address).is_loopback:
        raise UsageError(f"--share-credentials: only on a loopback address, and --listen is {listen}")
    try:
        settings = ProxySettings(
            resources=tuple(one.strip() for one in resources.split(",") if one.strip()),
            cache_bytes=SIZE.parse(cache_size),
            idle_seconds=DURATION.parse(cache_idle),
            stale_ok=stale_ok,
            share_credentials=share_credentials,
            accept_certificates=client_ca_file is not None,
            decision_seconds=DURATION.parse(decision_ttl),
            offline_seconds=DURATION.parse(offline_ttl),
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    options = Options(
        root_directory=root_directory.absolute(),
        bind_address=address,
        secure_port=port,
        plain_http=share_credentials and tls_cert_file is None and client_ca_file is None,
        tls_cert_file=tls_cert_file,
        tls_private_key_file=tls_private_key_file,
        client_ca_file=client_ca_file,
    )
    configure_logging(options.log_level, options.log_format)
    _serve(kubeconfig, context, settings, options)
    return 0


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    host = {"localhost": "127.0.0.1"}.get(host, host.strip("[]"))
    try:
        return str(ipaddress.ip_address(host)), int(port)
    except ValueError:
        raise UsageError(f"--listen: {listen} is not an address and a port such as 127.0.0.1:8001") from None


def _serve(kubeconfig: str | None, context: str | None, settings: ProxySettings, options: Options) -> None:
    from kcp_py.kubeconfig import KubeconfigError
    from kcp_py.proxy.application import CachingProxy
    from kcp_py.proxy.serving import serve_proxy
    from kcp_py.serving.certificates import CertificateError
    from kcp_py.serving.server import ListenError, event_loop_factory

    async def run() -> None:
        async with CachingProxy.of_kubeconfig(kubeconfig, context, settings=settings) as made:
            await serve_proxy(made, options, on_ready=announce)

    def announce(url: str) -> None:
        click.echo(f"kcp-py serves {url} as a caching proxy. Ctrl-C stops the server.")
        sys.stdout.flush()

    try:
        with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
            runner.run(run())
    except ListenError as error:
        raise CommandError(f"cannot listen on {error}") from error
    except (KubeconfigError, CertificateError) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{error.filename or options.root_directory}: {error.strerror or error}") from error
