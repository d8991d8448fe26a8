"""`kcp-py backup` and `kcp-py restore`: copies of the sqlite store."""

from __future__ import annotations

from pathlib import Path

import click

from kcp_py.cli.arguments import CONFIG_FILE, SettingsCommand, options_from, setting_flags
from kcp_py.cli.manual import of_settings


@click.command(
    cls=SettingsCommand,
    manual=of_settings(
        "kcp-py backup monday.db",
        "kcp-py backup --root-directory /var/lib/kcp /backups/kcp-monday.db",
        see_also=("restore", "doctor"),
        notes=f"{CONFIG_FILE} Give backup what you give start.",
        exits=("done", "the store cannot be read or the file cannot be written", "a setting is wrong"),
    ),
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@setting_flags()
def backup(file: Path, config_file: str | None, **given: str | None) -> int:
    """Write the objects of all logical clusters into FILE, which must not exist yet. The server may be running.

    Certificates and tokens are not in it: copy pki and admin-tokens.csv of the root directory, too.
    """
    options = options_from(given, config_file=config_file)
    from kcp_py.cli import copies

    state = copies.back_up(options, file)
    click.echo(f"{file}: the store at revision {state.revision}")
    return 0


@click.command(
    cls=SettingsCommand,
    manual=of_settings(
        "kcp-py restore monday.db",
        "kcp-py restore --root-directory /var/lib/kcp /backups/kcp-monday.db",
        see_also=("backup", "doctor"),
        notes=f"{CONFIG_FILE} Give restore what you give start.",
        exits=("done", "a server is running, or the backup cannot be used", "a setting is wrong"),
    ),
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--bump-revision",
    type=click.IntRange(min=1),
    default=None,
    help="Raise the revision by so much above all that clients can have seen. Default: 1000000000.",
)
@setting_flags()
def restore(file: Path, bump_revision: int | None, config_file: str | None, **given: str | None) -> int:
    """Put the backup FILE in the place of the store. No server may be running; the store that is replaced is kept under another name.

    The revision is raised above that of the backup and of the store that is replaced, and everything before counts as compacted: clients
    that hold an older resourceVersion get 410 and list again.
    """
    options = options_from(given, config_file=config_file)
    from kcp_py.cli import copies

    done = copies.restore(options, file, bump_revision)
    if done.replaced is not None:
        click.echo(f"{done.replaced}: the store that was there before")
    click.echo(f"{options.database_file}: restored from {file}; the store begins at revision {done.state.revision}")
    return 0
