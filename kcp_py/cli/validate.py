"""`kcp-py validate`: manifests as a server would judge them, without a server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from kcp_py.cli.manual import Documented, Manual

if TYPE_CHECKING:
    from kcp_py.cli.validation import Fault


@click.command(
    cls=Documented,
    manual=Manual(
        (
            "kcp-py validate --crds crds/ manifests/",
            "kcp-py validate --kubernetes-kinds deployment.yaml",
            "helm template . | kcp-py validate --kubernetes-kinds -",
            "kcp-py validate -o github --crds crds/ manifests/",
        ),
        see_also=("builtin install", "generate crds"),
        exits=("every object is valid", "an object is not", "wrong arguments, or a file that cannot be read"),
    ),
)
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="FILES...")
@click.option(
    "--crds",
    multiple=True,
    type=click.Path(),
    metavar="PATH",
    help="File or directory of CRDs; may be repeated. Those among FILES count, too.",
)
@click.option("--kubernetes-kinds", is_flag=True, help="Know pods, deployments and the other kinds that builtin install knows.")
@click.option("--ignore-unknown-kinds", is_flag=True, help="Skip objects of kinds without a definition, which are errors otherwise.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "github"]), default="text", help="Form of the output.  [text]")
def validate(files: Sequence[str], crds: Sequence[str], output: str, *, kubernetes_kinds: bool, ignore_unknown_kinds: bool) -> int:
    """Check manifests as a server checks them on create, with every fault and its line. No server is needed.

    FILES are YAML or JSON files, directories of them, or - for standard input.
    """
    import asyncio
    import itertools

    from kcp_py.cli.manifests import find_files, read_documents
    from kcp_py.cli.validation import Validator

    paths = [*find_files(crds), *find_files(files)]
    documents = itertools.chain.from_iterable(read_documents(path) for path in dict.fromkeys(paths))
    validator = Validator(kubernetes_kinds=kubernetes_kinds, ignore_unknown_kinds=ignore_unknown_kinds)
    faults = asyncio.run(validator.validate(documents))
    print_faults(faults, output)
    errors = sum(fault.severity == "error" for fault in faults)
    if output == "text":
        click.echo(f"{validator.objects} objects, {errors} errors, {len(faults) - errors} warnings", err=True)
    return 1 if errors else 0


def print_faults(faults: Sequence[Fault], output: str) -> None:
    """Print faults.

    Args:
        faults: in order.
        output: text (a line each), json (an array) or github (workflow commands).
    """
    if output == "json":
        click.echo(json.dumps([asdict(fault) for fault in faults], indent=2))
        return
    for fault in faults:
        subject = " ".join(filter(None, [fault.kind, f'"{fault.name}"' if fault.name else ""]))
        message = f"{subject}: {fault.text}" if subject else fault.text
        if output == "github":
            click.echo(f"::{fault.severity} file={_property(fault.file)},line={fault.line}::{_escaped(message)}")
        else:
            click.echo(f"{fault.file}:{fault.line}: {fault.severity}: {' '.join(message.splitlines())}")


def _escaped(text: str) -> str:
    """A message of a workflow command (GitHub Actions, `workflow-commands`)."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
