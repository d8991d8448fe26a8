"""`kcp-py generate crds`: the CRDs of the resources of a program, as controller-gen writes those of Go types."""

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
            "kcp-py generate crds my_operator.types",
            "kcp-py generate crds my_operator.types:Database -o config/crd",
            "kcp-py generate crds samples/foos.py | kubectl apply -f -",
        ),
        see_also=("generate models", "validate"),
    ),
)
@click.argument("target", metavar="MODULE[:OBJECT]")
@click.option(
    "-o",
    "--output-directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write a file GROUP_PLURAL.yaml for each CRD, instead of all to standard output.",
)
def crds(target: str, output_directory: Path | None) -> None:
    """Write the CRDs of the resources of a program.

    MODULE is a module or the path of a .py file. Without OBJECT, all resources in it are written: types of @resource, StoredResources and
    the resources of control planes. Rules in code, such as hooks and conversions, are not part of a CRD.
    """
    from kcp_py.cli.definitions import definitions_in
    from kcp_py.cli.definitionyaml import print_definition
    from kcp_py.cli.programs import load_program

    found = definitions_in(load_program(target))
    if not found:
        raise CommandError(f"{target} has no resources: types of @resource, StoredResources, or control planes that have some")
    texts = {_file_name(crd): print_definition(crd) for crd in found}
    if output_directory is None:
        click.echo("".join(texts.values()), nl=False)
        return
    for name, text in texts.items():
        path = output_directory / name
        try:
            output_directory.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}") from None
        click.echo(str(path))


def _file_name(crd: dict[str, Any]) -> str:
    """As controller-gen names them."""
    return f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml"
