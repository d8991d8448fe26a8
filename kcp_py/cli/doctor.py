"""`kcp-py doctor`: faults of a server's files, certificates, store and port."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

from kcp_py.cli.arguments import CONFIG_FILE, SettingsCommand, options_from, setting_flags
from kcp_py.cli.manual import of_settings


@click.command(
    cls=SettingsCommand,
    manual=of_settings(
        "kcp-py doctor",
        "kcp-py doctor --root-directory /var/lib/kcp --external-hostname kcp.example.com",
        "kcp-py doctor --config server.yaml",
        see_also=("start", "backup"),
        notes=f"{CONFIG_FILE} Give doctor what you give start.",
        exits=("nothing is wrong", "something is", "a setting is wrong"),
    ),
)
@setting_flags()
def doctor(config_file: str | None, **given: str | None) -> int:
    """Check files and their modes, certificates, the store, the port and the versions of libraries. Nothing is changed.

    A running server may be checked too. The sqlite store is read completely: about a second per gigabyte.
    """
    options = options_from(given, config_file=config_file)

    from kcp_py.cli import examination as look
    from kcp_py.cli.examination import Finding, Severity

    examinations: Iterable[tuple[str, Callable[[], Iterable[Finding]]]] = (
        ("versions", look.versions),
        ("files", lambda: look.files(options)),
        ("certificates", lambda: look.certificates(options)),
        ("kubeconfig", lambda: look.kubeconfig(options)),
        ("store", lambda: look.store(options)),
        ("port", lambda: look.port(options)),
    )
    colours = {Severity.OK: "green", Severity.NOTE: "yellow", Severity.WRONG: "red"}
    wrong = 0
    for area, examine in examinations:
        for finding in look.guarded(examine):
            wrong += finding.severity is Severity.WRONG
            word = click.style(f"{finding.severity.value:<6}", fg=colours[finding.severity])
            click.echo(f"{word} {area:<13} {finding.text}")
    return 1 if wrong else 0
