"""`kcp-py start`: the whole server in one process."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import click

from kcp_py.cli.arguments import CONFIG_FILE, SettingsCommand, options_from, setting_flags
from kcp_py.cli.manual import of_settings
from kcp_py.cli.structlogimport import import_structlog
from kcp_py.cli.tuning import tune_start


@click.command(
    cls=SettingsCommand,
    manual=of_settings(
        "kcp-py start",
        "kcp-py start --root-directory /var/lib/kcp --bind-address 0.0.0.0 --external-hostname kcp.example.com",
        "kcp-py start --storage etcd --etcd-servers https://etcd-0:2379,https://etcd-1:2379 --etcd-cafile ca.crt",
        "kcp-py start --logical-clusters declared --log-format json",
        "KCP_PY_SECURE_PORT=7443 kcp-py start --config server.yaml",
        "kcp-py start --app fleet.server:control_plane",
        see_also=("doctor", "backup", "controllers", "cluster create", "test-server"),
        notes=CONFIG_FILE,
    ),
)
@click.option("--app", metavar="MODULE:OBJECT", help="Serve the ControlPlane of a program, or that of a function.")
@setting_flags()
def start(config_file: str | None, app: str | None, **given: str | None) -> int:
    """Run the server: API, controllers and, unless --storage says otherwise, an embedded store.

    The first start makes a certificate authority, certificates, a token and admin.kubeconfig in the root directory; later starts reuse
    them.

    --app names an object in a module, or in a .py file. It is a ControlPlane, whose settings are those of the program where the command
    line, the environment and the file say nothing else; or a function that takes Options and returns a ControlPlane or an asynchronous
    context manager of one.
    """
    application = None
    if app is not None:
        from kcp_py.cli.applications import Application

        application = Application.load(app)
    options = options_from(given, config_file=config_file, base=application.base if application is not None else None)
    options = dataclasses.replace(options, root_directory=Path(options.root_directory).absolute())

    tune_start()
    if options.workers > 1 and application is None:
        from kcp_py.cli.supervising import supervise

        # The supervisor does not import the server.
        code = supervise(options, repeatable=click.get_current_context().obj is True)
        if code is not None:
            return code
    import_structlog()
    from kcp_py.cli.process import run_server

    return run_server(options, out=sys.stdout, application=application)
