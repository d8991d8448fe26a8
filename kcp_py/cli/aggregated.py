"""`kcp-py aggregated`: a program of the library as an aggregated API server."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from kcp_py.cli.arguments import CONFIG_FILE, SettingsCommand, options_from, setting_flags
from kcp_py.cli.exits import CommandError
from kcp_py.cli.manual import of_settings
from kcp_py.cli.structlogimport import import_structlog
from kcp_py.options import Options
from kcp_py.options.kinds import DURATION

if TYPE_CHECKING:
    from kcp_py.aggregated.settings import Delegation
    from kcp_py.controlplane import ControlPlane

_CACHED = 10.0
"""Seconds, as upstream's defaults of servers that delegate."""
_TTLS = (
    "authentication_token_webhook_cache_ttl",
    "authorization_webhook_cache_authorized_ttl",
    "authorization_webhook_cache_unauthorized_ttl",
)


@click.command(
    cls=SettingsCommand,
    manual=of_settings(
        "kcp-py aggregated foos.py:control_plane --kubeconfig ~/.kube/config --secure-port 8443",
        "kcp-py aggregated my_api.server:make --tls-cert-file tls.crt --tls-private-key-file tls.key",
        see_also=("generate apiservice", "start"),
        notes=CONFIG_FILE,
    ),
)
@click.argument("target", metavar="MODULE:OBJECT")
@click.option("--kubeconfig", metavar="FILE", help="Of the API server that forwards requests. Default: that of the pod.")
@click.option(
    "--authentication-kubeconfig", metavar="FILE", help="For reviews of tokens and the authorities of clients. Default: --kubeconfig."
)
@click.option("--authorization-kubeconfig", metavar="FILE", help="For reviews of access. Default: --kubeconfig.")
@click.option(
    "--authentication-skip-lookup",
    type=bool,
    is_flag=False,
    flag_value="true",
    default=False,
    help="Whether the ConfigMap extension-apiserver-authentication is not read; front proxies are those of --requestheader-client-ca-file.",
)
@click.option(
    "--authentication-tolerate-lookup-failure",
    type=bool,
    is_flag=False,
    flag_value="true",
    default=False,
    help="Whether the server starts where that ConfigMap cannot be read yet.",
)
@click.option(
    "--authorization-always-allow-paths",
    metavar="LIST",
    default="/healthz,/readyz,/livez",
    show_default=True,
    help="Paths that all callers may read.",
)
@click.option(
    "--inject-ca-bundle",
    type=bool,
    is_flag=False,
    flag_value="true",
    default=False,
    help="Whether the authority of the serving certificate is written into the APIServices.",
)
@setting_flags()
def aggregated(
    target: str,
    kubeconfig: str | None,
    authentication_kubeconfig: str | None,
    authorization_kubeconfig: str | None,
    *,
    authentication_skip_lookup: bool,
    authentication_tolerate_lookup_failure: bool,
    authorization_always_allow_paths: str,
    inject_ca_bundle: bool,
    config_file: str | None,
    **given: str | None,
) -> int:
    """Run a program as an aggregated API server behind kube-apiserver.

    OBJECT is a ControlPlane, or a function that makes one from Options. Settings that are given here replace those of a ControlPlane.
    """
    import_structlog()
    from kcp_py.aggregated.settings import Delegation
    from kcp_py.telemetry.logs import configure_logging

    options = options_from(given, config_file=config_file)
    allowed, denied = given[_TTLS[1]], given[_TTLS[2]]
    delegation = Delegation(
        kubeconfig=kubeconfig,
        authentication_kubeconfig=authentication_kubeconfig,
        authorization_kubeconfig=authorization_kubeconfig,
        authentication_skip_lookup=authentication_skip_lookup,
        authentication_tolerate_lookup_failure=authentication_tolerate_lookup_failure,
        token_cache_seconds=_seconds(given[_TTLS[0]]),
        allowed_cache_seconds=_seconds(allowed),
        denied_cache_seconds=_seconds(denied),
        always_allow_paths=tuple(path for path in authorization_always_allow_paths.split(",") if path),
        inject_ca_bundle=inject_ca_bundle,
    )
    configure_logging(options.log_level, options.log_format)
    _serve(control_plane_of(target, options, given), delegation)
    return 0


def control_plane_of(target: str, options: Options, given: Mapping[str, str | None]) -> ControlPlane:
    """The control plane that an argument names, with the settings of the command line.

    Args:
        target: as `load_program` takes it.
        options: of the command line, the environment and the configuration file.
        given: the flags by the names of settings; None for those that are not given.

    Raises:
        CommandError: the argument names something else.
    """
    from kcp_py.cli.programs import load_program
    from kcp_py.controlplane import ControlPlane

    found: Any = load_program(target)
    if callable(found) and not isinstance(found, ControlPlane):
        found = found(options)
        if isinstance(found, ControlPlane):
            return found
    elif isinstance(found, ControlPlane):
        defaults = Options()
        changes = {
            field.name: getattr(options, field.name)
            for field in dataclasses.fields(options)
            if given.get(field.name) is not None or getattr(options, field.name) != getattr(defaults, field.name)
        }
        found.configure(dataclasses.replace(found.options, **changes))
        return found
    raise CommandError(f"{target} is neither a ControlPlane nor a function that makes one from Options")


def _seconds(text: str | None) -> float:
    return _CACHED if text is None else float(DURATION.parse(text))


def _serve(control_plane: ControlPlane, delegation: Delegation) -> None:
    from kcp_py.aggregated.server import serve_aggregated
    from kcp_py.apimachinery.errors import StatusError
    from kcp_py.kubeconfig import KubeconfigError
    from kcp_py.serving.certificates import CertificateError
    from kcp_py.serving.server import ListenError, event_loop_factory
    from kcp_py.storage.contract import StorageError

    def announce(url: str) -> None:
        click.echo(f"kcp-py serves {url} as an aggregated API server. Ctrl-C stops the server.")
        sys.stdout.flush()

    try:
        with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
            runner.run(serve_aggregated(control_plane, delegation, on_ready=announce))
    except StatusError as error:
        raise CommandError(f"the API server that forwards requests does not say how they can be known: {error.message}") from error
    except (KubeconfigError, CertificateError, ListenError, StorageError, ValueError) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{error.filename or control_plane.options.root_directory}: {error.strerror or error}") from error
