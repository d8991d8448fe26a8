"""`kcp-py cluster grant | revoke | members`: roles of users, groups and service accounts in a logical cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kcp_py.cli.clusterapi import find_cluster
from kcp_py.cli.clusterlabels import decoded
from kcp_py.cli.completion import complete_namespaces, complete_roles
from kcp_py.cli.exits import CommandError, UsageError
from kcp_py.cli.flags import ClusterName, access_flags
from kcp_py.cli.manual import Documented, of_server
from kcp_py.cli.printing import table
from kcp_py.cli.remote import RemoteServer, load_context

if TYPE_CHECKING:
    from kcp_py.cli.clusterbindings import Binding, Subject

_Command = TypeVar("_Command", bound=Callable[..., Any])

ALL_NAMESPACES: Final = "<all>"


def _subject_flags(command: _Command) -> _Command:
    """`--user`, `--group` and `--service-account`, as parameters `users`, `groups` and `accounts`."""
    command = click.option(
        "--service-account", "accounts", multiple=True, metavar="NS/NAME", help="Service account of the logical cluster; may be repeated."
    )(command)
    command = click.option("--group", "groups", multiple=True, metavar="GROUP", help="Name of a group; may be repeated.")(command)
    return click.option("--user", "users", multiple=True, metavar="USER", help="Name of a user; may be repeated.")(command)


def parse_subjects(users: Sequence[str], groups: Sequence[str], accounts: Sequence[str], *, user: str, group: str) -> list[Subject]:
    """The subjects that flags name, each once.

    Args:
        users: values of the flag `user`.
        groups: values of the flag `group`.
        accounts: values of --service-account, `NAMESPACE/NAME`.
        user: the flag, for errors.
        group: the flag, for errors.

    Raises:
        UsageError: a name is empty, or one of a service account is not of its form.
    """
    from kcp_py.cli.clusterbindings import Subject

    for flag, names in ((user, users), (group, groups)):
        if not all(names):
            raise UsageError(f"{flag}: the name is empty")
    found = [Subject.user(name) for name in map(decoded, users)]
    found += [Subject("Group", name) for name in map(decoded, groups)]
    for account in map(decoded, accounts):
        namespace, _, name = account.partition("/")
        if not namespace or not name or "/" in name:
            raise UsageError(f'--service-account: "{account}" is not NAMESPACE/NAME')
        found.append(Subject("ServiceAccount", name, namespace))
    return list(dict.fromkeys(found))


def _required_subjects(users: Sequence[str], groups: Sequence[str], accounts: Sequence[str]) -> list[Subject]:
    if not (subjects := parse_subjects(users, groups, accounts, user="--user", group="--group")):
        raise UsageError("no subject: give --user, --group or --service-account")
    return subjects


@click.command(
    cls=Documented,
    manual=of_server(
        "kcp-py cluster grant team-a --group team-a --role cluster-admin",
        "kcp-py cluster grant team-a --user alice --user bob --role view",
        "kcp-py cluster grant team-a --user bob --role edit --namespace shop",
        "kcp-py cluster grant team-a --service-account shop/ci --role edit --namespace shop",
        see_also=("cluster revoke", "cluster members"),
    ),
)
@click.argument("name", type=ClusterName())
@_subject_flags
@click.option(
    "--role",
    required=True,
    metavar="ROLE",
    shell_complete=complete_roles,
    help="A ClusterRole: cluster-admin, admin, edit, view, …",
)
@click.option("-n", "--namespace", metavar="NS", shell_complete=complete_namespaces, help="Only in this namespace.")
@access_flags
def grant(
    name: str,
    kubeconfig: str | None,
    context: str | None,
    *,
    users: Sequence[str],
    groups: Sequence[str],
    accounts: Sequence[str],
    role: str,
    namespace: str | None,
) -> None:
    """Give users, groups or service accounts a role in the logical cluster NAME.

    They get the permission to enter the cluster, too, if the role does not contain it.
    """
    from kcp_py.cli.clusterbindings import grant_role

    subjects = _required_subjects(users, groups, accounts)
    role, namespace = _filled("--role", role), _filled("--namespace", namespace)
    with RemoteServer(load_context(kubeconfig, context)) as server:
        find_cluster(server, name)
        for line in grant_role(server, name, role, subjects, namespace=namespace):
            click.echo(line)


@click.command(
    cls=Documented,
    manual=of_server(
        "kcp-py cluster revoke team-a --user bob",
        "kcp-py cluster revoke team-a --user bob --role edit",
        "kcp-py cluster revoke team-a --group team-a --namespace shop",
        see_also=("cluster grant", "cluster members"),
    ),
)
@click.argument("name", type=ClusterName())
@_subject_flags
@click.option("--role", metavar="ROLE", shell_complete=complete_roles, help="Only this role.  [all]")
@click.option("-n", "--namespace", metavar="NS", shell_complete=complete_namespaces, help="Only roles in this namespace.  [everywhere]")
@access_flags
def revoke(
    name: str,
    kubeconfig: str | None,
    context: str | None,
    *,
    users: Sequence[str],
    groups: Sequence[str],
    accounts: Sequence[str],
    role: str | None,
    namespace: str | None,
) -> None:
    """Take roles in the logical cluster NAME from users, groups or service accounts.

    Without --role and --namespace it takes all of them. A subject without another role loses the permission to enter the cluster, too.
    Roles that every cluster inherits are taken by --role only. Roles that a user has as a member of a group stay.
    """
    from kcp_py.cli.clusterbindings import list_bindings, scope_of

    subjects = _required_subjects(users, groups, accounts)
    role, namespace = _filled("--role", role), _filled("--namespace", namespace)
    with RemoteServer(load_context(kubeconfig, context)) as server:
        find_cluster(server, name)
        bindings = list_bindings(server, name)
        absent = [subject for subject in subjects if not _revoke(server, bindings, subject, role=role, namespace=namespace)]
    if absent:
        where = scope_of(name, namespace)
        raise CommandError(f"no role{' ' if role else ''}{role} to revoke {where} from {', '.join(map(str, absent))}")


def _revoke(server: RemoteServer, bindings: Sequence[Binding], subject: Subject, *, role: str, namespace: str) -> bool:
    """Remove a subject from the bindings that the flags select; whether there were any."""
    from kcp_py.cli.clusterbindings import remove_subject

    held = [binding for binding in bindings if subject in binding.subjects and (role or not binding.is_inherited(subject))]
    selected = [one for one in held if role in {"", one.role, one.role_name} and namespace in {"", one.namespace}]
    others = [one for one in held if one not in selected and not one.is_inherited(subject)]
    # An access role that remains without another role is of no use.
    useless = [one for one in others if one.gives_access] if selected and all(one.gives_access for one in others) else []
    for binding in sorted((*selected, *useless), key=lambda one: one.gives_access):
        remove_subject(server, binding, subject)
        if binding.gives_access:
            click.echo(f"{subject} may no longer enter logical cluster {binding.cluster}")
        else:
            click.echo(f"{binding.role} {binding.scope} revoked from {subject}")
    return bool(selected)


@click.command(
    cls=Documented,
    manual=of_server(
        "kcp-py cluster members team-a",
        "kcp-py cluster members team-a --all -o wide",
        "kcp-py cluster members team-a -o json",
        see_also=("cluster grant", "cluster revoke"),
    ),
)
@click.argument("name", type=ClusterName())
@click.option("-o", "--output", type=click.Choice(["table", "wide", "json", "yaml"]), default="table", help="Form of the output.  [table]")
@click.option("--all", "inherited", is_flag=True, help="Also the roles that every logical cluster inherits.")
@access_flags
def members(name: str, output: str, kubeconfig: str | None, context: str | None, *, inherited: bool) -> None:
    """List users, groups and service accounts with their roles in the logical cluster NAME."""
    from kcp_py.cli.clusterbindings import list_bindings

    with RemoteServer(load_context(kubeconfig, context)) as server:
        find_cluster(server, name)
        bindings = list_bindings(server, name)
    rows = sort_members(bindings, inherited=inherited)
    match output:
        case "json":
            click.echo(json.dumps(_documents(rows), indent=2))
        case "yaml":
            import yaml

            for document in _documents(rows):
                click.echo("---\n" + yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)
        case _:
            if not rows:
                click.echo(f"no members in logical cluster {name}", err=True)
                return
            for line in table(_table(rows, wide=output == "wide", inherited=inherited)):
                click.echo(line)


def sort_members(bindings: Iterable[Binding], *, inherited: bool) -> list[tuple[Subject, Binding]]:
    """Each subject with each binding that it is in, ordered by subject, then by namespace and role.

    Args:
        bindings: of a cluster.
        inherited: with the subjects that bindings have in every cluster.
    """
    rows = [
        (subject, binding)
        for binding in bindings
        for subject in dict.fromkeys(binding.subjects)
        if inherited or not binding.is_inherited(subject)
    ]
    return sorted(rows, key=lambda row: (row[0], row[1].namespace, row[1].role, row[1].name))


def _documents(rows: Iterable[tuple[Subject, Binding]]) -> list[dict[str, Any]]:
    """A document for each subject, with its roles."""
    found: dict[Subject, list[dict[str, Any]]] = {}
    for subject, binding in rows:
        role = {"kind": binding.role_kind, "name": binding.role_name, "binding": binding.name, "inherited": binding.is_inherited(subject)}
        found.setdefault(subject, []).append({**role, **({"namespace": binding.namespace} if binding.namespace else {})})
    return [{"subject": subject.to_json(), "roles": roles} for subject, roles in found.items()]


def _table(rows: Iterable[tuple[Subject, Binding]], *, wide: bool, inherited: bool) -> list[list[str]]:
    heading = ["KIND", "NAME", "ROLE", "NAMESPACE", *(["INHERITED"] if inherited else []), *(["BINDING"] if wide else [])]
    lines = [heading]
    for subject, binding in rows:
        line = [subject.kind, subject.full_name, binding.role, binding.namespace or ALL_NAMESPACES]
        line += ["yes" if binding.is_inherited(subject) else "no"] if inherited else []
        lines.append(line + ([binding.name] if wide else []))
    return lines


def _filled(flag: str, value: str | None) -> str:
    """The value of a flag, empty where it is not given.

    Raises:
        UsageError: it is given with an empty value, which would otherwise mean everything.
    """
    if value is not None and not value:
        raise UsageError(f"{flag}: the value is empty")
    return decoded(value or "")
