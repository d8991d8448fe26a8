"""`kcp-py cluster kubeconfig`: a kubeconfig for one logical cluster, with the credentials of the caller or of another user."""

from __future__ import annotations

import ipaddress
import os
import shlex
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO
from urllib.parse import urlsplit, urlunsplit

import click

from kcp_py.cli.clusterapi import require_cluster
from kcp_py.cli.clusterlabels import decoded
from kcp_py.cli.exits import UsageError
from kcp_py.cli.flags import ClusterName, access_flags, create_flag
from kcp_py.cli.manual import Documented, of_server
from kcp_py.cli.remote import RemoteServer, command_errors, load_context
from kcp_py.kubeconfig import KubeconfigContext, kubeconfig_of
from kcp_py.logicalcluster import is_system
from kcp_py.options.kinds import parse_duration

DEFAULT_MERGE: Final = "~/.kube/config"
SHORTEST_SECONDS: Final = 600
LONGEST_SECONDS: Final = 2**31 - 1


class _Who(NamedTuple):
    """Whose credentials the kubeconfig gets; at most one of the members is set, none for those of the caller."""

    user: str
    account: tuple[str, str] | None
    issuer: str

    @property
    def label(self) -> str:
        """A name for user and context."""
        return self.user or (":".join(self.account) if self.account else "oidc")


@click.command(
    name="kubeconfig",
    cls=Documented,
    manual=of_server(
        "kcp-py cluster kubeconfig team-a -o team-a.kubeconfig",
        "kcp-py cluster kubeconfig team-a --user alice --group team-a --expires 8h -o alice.kubeconfig",
        "kcp-py cluster kubeconfig team-a --service-account shop/ci --merge=ci.kubeconfig",
        "kcp-py cluster kubeconfig team-a --oidc https://issuer.example --oidc-client-id kubernetes --merge",
        see_also=("cluster create", "cluster grant"),
    ),
)
@click.argument("name", type=ClusterName())
@click.option("--user", metavar="USER", help="Put in a new certificate of USER, which is valid in this logical cluster alone.")
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Group of that user; may be repeated.")
@click.option("--service-account", "account", metavar="NS/NAME", help="Put in a new token of this service account.")
@click.option("--oidc", "issuer", metavar="ISSUER", help="Have kubectl log in at this OpenID Connect issuer (kubectl oidc-login).")
@click.option("--oidc-client-id", metavar="ID", help="Client at the issuer.")
@click.option("--oidc-scope", "scopes", multiple=True, metavar="SCOPE", help="Further scope to ask for; may be repeated.")
@click.option("--expires", metavar="DURATION", help="How long certificate or token shall be valid.  [24h]")
@click.option("-n", "--namespace", metavar="NS", help="Namespace of the context.")
@click.option("--by-host", is_flag=True, help="Name the logical cluster by the host, NAME.HOST, for tools that drop the path.")
@click.option(
    "-o", "--output", type=click.Path(), metavar="FILE", help="Write FILE, readable for its owner only. Without it, or as -: print."
)
@click.option(
    "--merge", is_flag=False, flag_value=DEFAULT_MERGE, metavar="[=FILE]", help=f"Add the context to FILE instead.  [{DEFAULT_MERGE}]"
)
@click.option("--force", is_flag=True, help="Replace FILE of --output if it exists.")
@create_flag
@access_flags
def kubeconfig_(
    name: str,
    kubeconfig: str | None,
    context: str | None,
    *,
    user: str | None,
    groups: Sequence[str],
    account: str | None,
    issuer: str | None,
    oidc_client_id: str | None,
    scopes: Sequence[str],
    expires: str | None,
    namespace: str | None,
    by_host: bool,
    output: str | None,
    merge: str | None,
    force: bool,
    create: bool,
) -> None:
    """Make a kubeconfig for the logical cluster NAME.

    Without --user, --service-account and --oidc it has the credentials of the kubeconfig that is used: keep it as private as that one. With
    one of them it has a credential of this user and none of yours. Roles are granted by `kcp-py cluster grant`.

    Certificates and tokens are short-lived. To renew one, run the same command again, with --force or --merge.
    """
    who = _who(user, account, issuer)
    _check_flags(who, groups=groups, client_id=oidc_client_id, scopes=scopes, expires=expires, output=output, merge=merge)
    seconds = _seconds(expires or "24h")
    access = load_context(kubeconfig, context)
    url = _host_url(access, name) if by_host else f"{access.base_url}/clusters/{name}"
    if who.user and urlsplit(url).scheme == "http":
        raise UsageError("--user: the server is reached without TLS, and a client certificate needs it; use --service-account")
    with command_errors():
        cluster, own = access.embedded()
    with RemoteServer(access) as server:
        require_cluster(server, name, create=create)
        credential, note = _credential(server, name, who, groups=tuple(map(decoded, groups)), seconds=seconds)
    if who.issuer:
        credential = _oidc_user(who.issuer, oidc_client_id or "", scopes)
    is_own = who == _Who("", None, "")
    cluster = cluster if is_own else _for_others(cluster)
    label = name if is_own else f"{who.label}@{name}"
    document = kubeconfig_of(
        {**cluster, "server": url}, own if is_own else credential, cluster_name=name, user_name=access.user_name if is_own else label,
        context_name=label, namespace=namespace or "",
    )  # fmt: skip
    _deliver(document, output=output, merge=merge, force=force)
    for line in note:
        click.echo(line, err=True)


_OF_THE_SERVER: Final = ("certificate-authority-data", "tls-server-name", "insecure-skip-tls-verify", "disable-compression", "proxy-url")


def _for_others(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The server of the caller's kubeconfig, for that of another user: without the password of a proxy and the notes of programs."""
    kept = {key: value for key, value in cluster.items() if key in _OF_THE_SERVER}
    if "proxy-url" in kept:
        parts = urlsplit(str(kept["proxy-url"]))
        kept["proxy-url"] = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return kept


def _who(user: str | None, account: str | None, issuer: str | None) -> _Who:
    given = {"--user": user, "--service-account": account, "--oidc": issuer}
    for flag, value in given.items():
        if value is not None and not value:
            raise UsageError(f"{flag}: the value is empty")
    if len(set_flags := [flag for flag, value in given.items() if value]) > 1:
        raise UsageError(f"{' and '.join(set_flags)} exclude each other")
    parts = None
    if account is not None:
        namespace, _, name = decoded(account).partition("/")
        if not namespace or not name or "/" in name:
            raise UsageError(f'--service-account: "{account}" is not NAMESPACE/NAME')
        parts = (namespace, name)
    if issuer is not None and urlsplit(issuer).scheme != "https":
        raise UsageError(f'--oidc: "{issuer}" is not a URL such as https://issuer.example')
    return _Who(decoded(user or ""), parts, issuer or "")


def _check_flags(
    who: _Who,
    *,
    groups: Sequence[str],
    client_id: str | None,
    scopes: Sequence[str],
    expires: str | None,
    output: str | None,
    merge: str | None,
) -> None:
    """Refuse flags that would have no effect.

    Raises:
        UsageError: there is one.
    """
    if groups and not who.user:
        raise UsageError("--group needs --user")
    if expires is not None and not (who.user or who.account):
        raise UsageError("--expires needs --user or --service-account")
    if bool(client_id) != bool(who.issuer) or (scopes and not who.issuer):
        raise UsageError("--oidc and --oidc-client-id belong together")
    if output is not None and not output:
        raise UsageError("--output: the path is empty")
    if merge is not None and (output is not None or not merge):
        raise UsageError("--merge and --output exclude each other" if merge else "--merge: the path is empty")


def _seconds(text: str) -> int:
    try:
        seconds = int(parse_duration(text))
    except ValueError as error:
        raise UsageError(f"--expires: {error}") from None
    if not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
        raise UsageError("--expires: it must be at least 10m" if seconds < SHORTEST_SECONDS else "--expires: it is too long")
    return seconds


def _host_url(access: KubeconfigContext, name: str) -> str:
    """The address of a cluster without a path.

    Raises:
        UsageError: the kubeconfig names the server by an IP address, or the cluster has no host name.
    """
    parts = urlsplit(access.base_url)
    host = parts.hostname or ""
    if is_system(name):
        raise UsageError(f"--by-host: {name} has no host name")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if not parts.path:
            return f"{parts.scheme}://{name}.{host}" + (f":{parts.port}" if parts.port else "")
        raise UsageError(f"--by-host: the server is reached at a path, {access.base_url}") from None
    raise UsageError(f"--by-host: {host} is an address; start the server with --external-hostname and --cluster-hostnames")


def _credential(server: RemoteServer, name: str, who: _Who, *, groups: Sequence[str], seconds: int) -> tuple[dict[str, Any], Sequence[str]]:
    """The user of the kubeconfig, and lines for the person who runs the command."""
    if not who.user and who.account is None:
        return {}, ()
    from kcp_py.cli.credentialrequests import client_certificate, service_account_token

    if who.account is not None:
        credential = service_account_token(server, name, who.account, seconds=seconds)
        kind = f"token of service account {'/'.join(who.account)}"
    else:
        credential = client_certificate(server, name, who.user, groups=groups, seconds=seconds)
        kind = f"certificate of {who.user}"
    return credential.user, (f"the {kind} for logical cluster {name} expires at {credential.expires}; the same command renews it",)


def _oidc_user(issuer: str, client_id: str, scopes: Sequence[str]) -> dict[str, Any]:
    """The convention of the kubectl plugin oidc-login (int128/kubelogin)."""
    arguments = ["oidc-login", "get-token", f"--oidc-issuer-url={issuer}", f"--oidc-client-id={client_id}"]
    arguments += [f"--oidc-extra-scope={scope}" for scope in scopes]
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "kubectl",
        "args": arguments,
        "installHint": "kubectl oidc-login is missing: kubectl krew install oidc-login",
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": False,
    }
    return {"exec": plugin}


def _deliver(document: dict[str, Any], *, output: str | None, merge: str | None, force: bool) -> None:
    from kcp_py.cli.credentials import render_kubeconfig
    from kcp_py.cli.kubeconfigfiles import merge_into, write_new

    if merge is not None:
        path = Path(merge).expanduser()
        merged = merge_into(path, document)
        click.echo(f"context {merged.context} written to {path}")
        if merged.document["current-context"] != merged.context:
            click.echo(f"kubectl config use-context {shlex.quote(merged.context)} switches to it", err=True)
    elif output in {None, "-"}:
        if _is_open_file(sys.stdout):
            click.echo("warning: other users can read this file, and it holds credentials; -o FILE writes a private one", err=True)
        click.echo(render_kubeconfig(document), nl=False)
    else:
        path = Path(output or "")
        write_new(path, render_kubeconfig(document), force=force)
        click.echo(f"kubeconfig written to {path}")


def _is_open_file(stream: TextIO) -> bool:
    """Whether the output goes to a file that users other than its owner can read."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o077)
