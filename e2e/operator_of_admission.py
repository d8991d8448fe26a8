"""A kopf operator in a process of its own, with admission webhooks for one logical cluster: it paints config maps and secrets.

python -m e2e.operator_of_admission CA_FILE TOKEN URL PORT CHAIN_FILE AUTHORITY_FILE

kopf writes the configurations of the webhooks into the cluster. Failures of the webhook for config maps refuse the write, those of the
webhook for secrets do not. SIGKILL leaves the configurations in the cluster.
"""

from __future__ import annotations

import sys
from typing import Any

import kopf

NAME = "paint.example.com"


def main(arguments: list[str]) -> None:
    """Run until a signal comes."""
    ca_file, token, url, port, chain_file, authority_file = arguments
    color = url.rpartition("/")[2]
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=url, ca_path=ca_file, scheme="Bearer", token=token)

    @kopf.on.startup(registry=registry)
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.admission.managed = NAME
        settings.admission.server = kopf.WebhookServer(
            addr="127.0.0.1", host="127.0.0.1", port=int(port), certfile=chain_file, pkeyfile=chain_file, cafile=authority_file
        )

    def paint(patch: kopf.Patch, warnings: list[str], labels: kopf.Labels, **_: Any) -> None:
        if "plain" in labels:
            warnings.append("plain things are not painted")
        else:
            patch.metadata.labels["color"] = color

    kopf.on.mutate("configmaps", id="maps", operations=["CREATE", "UPDATE"], registry=registry)(paint)
    kopf.on.mutate("secrets", id="secrets", operations=["CREATE", "UPDATE"], ignore_failures=True, registry=registry)(paint)

    @kopf.on.validate("configmaps", id="check", registry=registry)
    def check(body: kopf.Body, operation: str, userinfo: Any, labels: kopf.Labels, **more: Any) -> None:
        if operation == "DELETE" and "kept" in labels:
            raise kopf.AdmissionError(f"{color} keeps it from {userinfo['username']}", code=409)
        if "color" not in labels and "plain" not in labels:
            raise kopf.AdmissionError("it is not painted")
        if "bad" in body.get("data", {}):
            raise kopf.AdmissionError(f"{color} refuses it{' in a dry run' if more['dryrun'] else ''}", code=418)

    kopf.run(registry=registry, standalone=True, clusterwide=True)


if __name__ == "__main__":
    main(sys.argv[1:])
