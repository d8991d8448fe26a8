"""An aggregated API server: kube-apiserver forwards the group hello.zeng.dev to it, and decides who may do what.

::

    kcp-py generate apiservice config/samples/library/aggregated.py:control_plane --address 192.0.2.7 --port 8443 | kubectl apply -f -
    kcp-py aggregated config/samples/library/aggregated.py:control_plane --kubeconfig ~/.kube/config --secure-port 8443 --inject-ca-bundle
    kubectl create -f - <<< '{"apiVersion": "hello.zeng.dev/v1", "kind": "Foo", "metadata": {"name": "test"}, "spec": {"msg": "hi"}}'
    kubectl get fo
    kubectl explain foo.spec
"""

from typing import Any

from kcp_py import ControlPlane, Options, StoredResource, Strategy

SCHEMA = {
    "type": "object",
    "description": "Foo is a pair of messages.",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["msg"],
            "properties": {
                "msg": {"type": "string", "minLength": 1, "description": "The first message."},
                "msg1": {"type": "string", "default": "hi, there 👋", "description": "The second message."},
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}


class FooRules(Strategy):
    """What the schema cannot say."""

    def prepare_for_create(self, obj: dict[str, Any]) -> None:
        obj["status"] = {"phase": "Processing"}

    def warnings(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[str]:
        return ["both messages are the same"] if obj["spec"]["msg"] == obj["spec"].get("msg1") else []


foos = StoredResource(
    group="hello.zeng.dev",
    version="v1",
    resource="foos",
    kind="Foo",
    schema=SCHEMA,
    strategy=FooRules(),
    columns=[
        {"name": "Message", "type": "string", "jsonPath": ".spec.msg"},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    ],
    short_names=["fo"],
    status=True,
)
control_plane = ControlPlane(Options(storage="memory"), apis=[foos], batteries=["namespaces"])
