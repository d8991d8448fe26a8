"""`kcp-py generate apiservice`: the objects that register a program as an aggregated API server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kcp_py.cli.exits import CommandError
from kcp_py.cli.manual import Documented, Manual


@click.command(
    cls=Documented,
    manual=Manual(
        (
            "kcp-py generate apiservice foos.py:control_plane --image example.com/foos:1 | kubectl apply -f -",
            "kcp-py generate apiservice foos.py:control_plane --address 192.0.2.7 --port 8443 --ca-bundle .kcp/pki/ca.crt",
        ),
        see_also=("aggregated",),
    ),
)
@click.argument("target", metavar="MODULE:OBJECT")
@click.option("--service", metavar="NAME", default="apiserver", show_default=True, help="Name of the Service and of what belongs to it.")
@click.option("--namespace", metavar="NAME", default="", help="Its namespace. Default: the name of the Service.")
@click.option("--port", type=click.IntRange(1, 65535), default=6443, show_default=True, help="Port of the server, behind the Service.")
@click.option("--address", "addresses", multiple=True, metavar="IP", help="Address of a server outside of the cluster, instead of pods.")
@click.option("--host", metavar="NAME", default="", help="DNS name of a server outside of the cluster, instead of addresses.")
@click.option("--ca-bundle", type=click.Path(path_type=Path), metavar="FILE", help="Authority (PEM) of the serving certificate.")
@click.option("--image", metavar="IMAGE", default="", help="Image with kcp-py and the program, for a Deployment.")
def apiservice(
    target: str, service: str, namespace: str, *, port: int, addresses: tuple[str, ...], host: str, ca_bundle: Path | None, image: str
) -> None:
    """Write what registers a program as an aggregated API server, as YAML.

    OBJECT is a ControlPlane, or a list of its resources. Without --ca-bundle the server has to run with --inject-ca-bundle. Without --image
    and --address, pods with the label app=SERVICE are the servers. The serving certificate needs the name SERVICE.NAMESPACE.svc, which
    --external-hostname gives to a certificate of its own.
    """
    import yaml

    from kcp_py.aggregated.registration import Registration, group_versions, manifests
    from kcp_py.cli.programs import load_program
    from kcp_py.controlplane import ControlPlane

    found: Any = load_program(target)
    place = namespace or service
    apis = found.apis if isinstance(found, ControlPlane) else list(found) if isinstance(found, (list, tuple)) else [found]
    command = ("kcp-py", "aggregated", target, "--secure-port", str(port), "--bind-address", "0.0.0.0")  # noqa: S104 - in a pod
    settings = ("--root-directory", "/data", "--external-hostname", f"{service}.{place}.svc", "--inject-ca-bundle")
    try:
        registration = Registration(
            service=service,
            namespace=place,
            port=port,
            addresses=addresses,
            host=host,
            ca_bundle=None if ca_bundle is None else ca_bundle.read_bytes(),
            image=image,
            command=(*command, *(settings[:-1] if ca_bundle is not None else settings)),
        )
        objects = manifests(group_versions(apis), registration)
    except OSError as error:
        raise CommandError(f"{ca_bundle}: {error.strerror}") from None
    except ValueError as error:
        raise CommandError(f"{target}: {error}") from None
    click.echo(yaml.safe_dump_all(objects, sort_keys=False), nl=False)
