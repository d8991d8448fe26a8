"""`kcp-py controllers`: the controllers of a server in a process of their own, over HTTP."""

from __future__ import annotations

import click

from kcp_py.cli.arguments import SettingsCommand, options_from, setting_flags
from kcp_py.cli.exits import UsageError
from kcp_py.cli.flags import access_flags
from kcp_py.cli.manual import ADMIN_KUBECONFIG, KUBECONFIG, SETTINGS_VARIABLES, Manual
from kcp_py.cli.structlogimport import import_structlog

SETTINGS = (
    "controllers",
    "leader_elect",
    "namespace_deletion_grace",
    "legacy_service_account_token_clean_up_period",
    "event_ttl",
    "terminated_pod_gc_threshold",
    "resource_quota_sync_period",
    "simulate",
    "simulate_delay",
    "metrics_bind_address",
    "log_level",
    "log_format",
)


@click.command(
    cls=SettingsCommand,
    manual=Manual(
        (
            "kcp-py start --controllers=-*  # a server without controllers",
            "kcp-py controllers --kubeconfig .kcp/admin.kubeconfig  # its controllers",
            "kcp-py controllers --controllers=*,-garbage-collector-controller",
            "kcp-py controllers --app fleet.py:controllers  # the functions of a program",
        ),
        see_also=("start",),
        notes="Of several such processes, and of servers that elect a leader, one runs the controllers; the others wait for its end.",
        environment=(KUBECONFIG, SETTINGS_VARIABLES),
        files=(ADMIN_KUBECONFIG,),
        exits=("stopped in order", "the kubeconfig or the address of metrics cannot be used", "a setting is wrong"),
    ),
)
@click.option("--app", metavar="MODULE:OBJECT", help="Run the reconcile functions of a program instead: Controllers or a ControlPlane.")
@click.option("--cluster", metavar="NAME", help="With --app: the logical cluster to work in, instead of all.")
@click.option("--lease", metavar="CLUSTER/NAMESPACE/NAME", help="With --app: the Lease by which several such processes elect a leader.")
@access_flags
@setting_flags(only=SETTINGS)
def controllers(
    kubeconfig: str | None,
    context: str | None,
    config_file: str | None,
    *,
    app: str | None,
    cluster: str | None,
    lease: str | None,
    **given: str | None,
) -> int:
    """Run the controllers of the server that a kubeconfig names, until a signal.

    The user of the kubeconfig must be in the group system:masters. The server should run none of these controllers itself. With --app the
    user needs the permissions that the functions use, and to list and watch their kinds, in all clusters or in the one of --cluster.
    """
    options = options_from(given, config_file=config_file)

    import_structlog()
    if app is not None:
        from kcp_py.cli.functionsprocess import run_functions

        return run_functions(options, kubeconfig, context, app=app, cluster=cluster, lease=lease)
    if cluster is not None or lease is not None:
        raise UsageError("--cluster and --lease belong to --app")
    from kcp_py.cli.controllersprocess import run_controllers

    return run_controllers(options, kubeconfig, context)
