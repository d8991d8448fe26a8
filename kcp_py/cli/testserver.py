"""`kcp-py test-server`: a server for one test run, in any language."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from kcp_py.cli.arguments import CONFIG_FILE, SettingsCommand, options_from, setting_flags
from kcp_py.cli.exits import CommandError, UsageError
from kcp_py.cli.manual import SETTINGS_VARIABLES, Manual
from kcp_py.cli.startedby import STARTED_BY
from kcp_py.cli.structlogimport import import_structlog
from kcp_py.options import SETTINGS

OWN: Final = frozenset(("root_directory", "secure_port", "plain_http", "dev_users", "token_auth_file"))
"""Settings that this command decides, or has under another name."""
DEFAULTS: Final = {
    "storage": "memory",
    "shutdown_grace_period": "1s",
    "namespace_deletion_grace": "0s",
    "simulate_delay": "0s",
    "require_cluster_access": "false",
    "cluster_annotation": "wildcard",
    "access_log": "none",
    "log_level": "warning",
}
"""Settings whose defaults differ from those of `kcp-py start`; only flags replace them."""


@click.command(
    name="test-server",
    cls=SettingsCommand,
    manual=Manual(
        (
            "kcp-py test-server  # a server that ends with the program that started it",
            "kcp-py test-server --clusters 2 --crds config/crd  # with two logical clusters that have definitions",
            "kcp-py test-server --simulate workloads --no-parent  # until it gets a signal",
        ),
        see_also=("start", "envtest-assets"),
        notes=CONFIG_FILE,
        environment=(SETTINGS_VARIABLES,),
        exits=("ended in order", "it could not start, with one line that says why", "a flag is wrong"),
    ),
)
@click.option("--clusters", type=click.IntRange(0, 1000), default=0, metavar="N", help="Make N logical clusters, test-1 to test-N.")
@click.option(
    "--crds", type=click.Path(), multiple=True, metavar="PATH", help="Apply a file or a directory of manifests in each of them; repeatable."
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="PORT", help="Port of HTTPS; 0 takes a free one.  [0]")
@click.option(
    "--root-dir", type=click.Path(), metavar="DIR", help="Keep files in DIR. Without it: in a temporary directory, which is removed."
)
@click.option("--for-pid", type=click.IntRange(1), metavar="PID", help="End with the process PID instead of the parent.")
@click.option("--no-parent", is_flag=True, help="Do not end with another process, only with a signal.")
@setting_flags(only={setting.name for setting in SETTINGS} - OWN)
def test_server(
    config_file: str | None,
    *,
    clusters: int,
    crds: tuple[str, ...],
    port: int,
    root_dir: str | None,
    for_pid: int | None,
    no_parent: bool,
    **given: Any,
) -> None:
    """Run a server for tests, which keeps nothing and ends with its parent.

    It prints one line of JSON when clients can begin: the kubeconfig, the URL, the token, the pid. Each test takes a logical cluster of its
    own, by any name below /clusters/.
    """
    began = time.monotonic()
    if no_parent and for_pid is not None:
        raise UsageError("--no-parent and --for-pid exclude each other")
    if crds and not clusters:
        raise UsageError("--crds needs --clusters: it applies to the clusters that the command makes")
    gc.set_threshold(100_000)
    options = options_from(_with_defaults(given), config_file=config_file)
    os.umask(0o077)
    with _directory(root_dir) as directory:
        options = dataclasses.replace(options, root_directory=directory, secure_port=port)
        import_structlog()
        from kcp_py.apimachinery.errors import StatusError
        from kcp_py.testing.parents import Parent
        from kcp_py.testing.process import Plan, run

        parent = None if no_parent else Parent(for_pid, started_by=STARTED_BY)
        try:
            run(
                Plan(
                    options=options,
                    clusters=clusters,
                    crds=tuple(map(Path, crds)),
                    parent=parent,
                    durable=root_dir is not None,
                    began=began,
                ),
                sys.stdout,
            )
        except (StatusError, ValueError) as error:
            raise CommandError(" ".join(str(error).split())) from None
        except OSError as error:
            raise CommandError(f"{error.filename or directory}: {error.strerror or error}") from None
        except Exception as error:
            raise CommandError(" ".join(str(error).split()) or type(error).__name__) from error


def _with_defaults(given: dict[str, Any]) -> dict[str, str | None]:
    return {**DEFAULTS, **{name: text for name, text in given.items() if text is not None}}


@contextlib.contextmanager
def _directory(given: str | None) -> Iterator[Path]:
    """The root directory: the given one, which stays, or a temporary one, which is removed even if this process is killed."""
    if given is not None:
        directory = Path(given).absolute()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield directory
        return
    from kcp_py.testing.parents import remove_after_end

    directory = Path(tempfile.mkdtemp(prefix="kcp-py-test-"))
    try:
        remove_after_end(directory)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
