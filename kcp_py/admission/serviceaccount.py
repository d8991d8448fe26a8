"""`ServiceAccount`: every pod has an account that exists, and uses only the secrets that the account allows.

Source: kubernetes `plugin/pkg/admission/serviceaccount`. Upstream also adds a volume with a token of the account to pods, for the kubelet.
It is left out, as there are no nodes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

from kcp_py.admission.pods import PodPlugin, containers_of, pod_of
from kcp_py.apimachinery import errors
from kcp_py.golang.quoting import go_quote
from kcp_py.registry.admission import Attributes
from kcp_py.registry.clusterstate import ClusterState

FindAccount = Callable[[ClusterState, str, str], Awaitable[Mapping[str, Any] | None]]
"""(cluster, namespace, name) -> the stored ServiceAccount. May raise StorageError."""

_MIRROR: Final = "kubernetes.io/config.mirror"
_ENFORCED: Final = "kubernetes.io/enforce-mountable-secrets"
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_SECRET_FIELDS: Final = frozenset({"nodePublishSecretRef", "secret", "secretKeyRef", "secretName", "secretRef"})


class ServiceAccount(PodPlugin):
    """Fills the account and its pull secrets, and refuses pods whose account does not exist or does not allow a secret."""

    name = "ServiceAccount"

    def __init__(self, find: FindAccount) -> None:
        """Make the plugin. `find` reads an account."""
        self._find = find

    async def mutate(self, attributes: Attributes) -> None:
        """Fill a pod.

        Raises:
            StatusError: 403.
        """
        if (pod := pod_of(attributes)) is None:
            return
        if not _is_mirror(pod):
            spec = pod["spec"]
            if not spec.get("serviceAccountName"):
                spec["serviceAccountName"] = spec["serviceAccount"] = "default"
            account = await self._account(attributes, spec["serviceAccountName"])
            if not spec.get("imagePullSecrets") and (pulled := account.get("imagePullSecrets")):
                spec["imagePullSecrets"] = [{"name": one.get("name", "")} for one in pulled]
        await self.validate(attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Check the account of a new pod.

        Raises:
            StatusError: 403.
        """
        if (pod := pod_of(attributes)) is None:
            return
        if _is_mirror(pod):
            if problem := mirror_problem(pod):
                raise _refused(attributes, problem)
            return
        if not (name := pod["spec"].get("serviceAccountName")):
            raise _refused(attributes, f"no service account specified for pod {attributes.namespace}/{attributes.name}")
        account = await self._account(attributes, name)
        annotations = account["metadata"].get("annotations") or {}
        if annotations.get(_ENFORCED) in _TRUE and (problem := next(secret_problems(pod, account), "")):
            raise _refused(attributes, problem)

    async def _account(self, attributes: Attributes, name: str) -> Mapping[str, Any]:
        """The account of a name.

        Raises:
            StatusError: 403 where it does not exist.
        """
        found = await self._find(attributes.request.target.cluster_state, attributes.namespace, name)
        if found is None:
            place = f"{attributes.namespace}/{name}"
            raise _refused(attributes, f"error looking up service account {place}: serviceaccount {go_quote(name)} not found")
        return found


def mirror_problem(pod: Mapping[str, Any]) -> str:
    """Why a pod cannot be the mirror of one of a kubelet's own; empty where it can."""
    spec = pod["spec"]
    if spec.get("serviceAccountName"):
        return "a mirror pod may not reference service accounts"
    if spec.get("imagePullSecrets") or any(
        _names_secret(part) for part in ([container for _, container in containers_of(pod)], spec.get("volumes"))
    ):
        return "a mirror pod may not reference secrets"
    for volume in spec.get("volumes") or ():
        if any(source.get("serviceAccountToken") is not None for source in (volume.get("projected") or {}).get("sources") or ()):
            return "a mirror pod may not use ServiceAccountToken volume projections"
    return ""


def secret_problems(pod: Mapping[str, Any], account: Mapping[str, Any]) -> Iterator[str]:
    """The secrets of a pod that its account does not list, in upstream's words and order."""
    spec, name = pod["spec"], account["metadata"]["name"]
    allowed = {one.get("name", "") for one in account.get("secrets") or ()}
    rest = f"is not allowed because service account {name} does not reference that secret"
    for volume in spec.get("volumes") or ():
        if (source := volume.get("secret")) is not None and (secret := source.get("secretName", "")) not in allowed:
            yield f'volume with secret.secretName="{secret}" {rest}'
    for path, container in containers_of(pod):
        if path.startswith("spec.ephemeralContainers"):
            continue
        title = f"{'init container' if path.startswith('spec.init') else 'container'} {container.get('name', '')}"
        for variable in container.get("env") or ():
            reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if reference is not None and (secret := reference.get("name", "")) not in allowed:
                yield f'{title} with envVar {variable.get("name", "")} referencing secret.secretName="{secret}" {rest}'
        for source in container.get("envFrom") or ():
            reference = source.get("secretRef")
            if reference is not None and (secret := reference.get("name", "")) not in allowed:
                yield f'{title} with envFrom referencing secret.secretName="{secret}" {rest}'
    pulled = {one.get("name", "") for one in account.get("imagePullSecrets") or ()}
    for at, one in enumerate(spec.get("imagePullSecrets") or ()):
        if (secret := one.get("name", "")) not in pulled:
            why = f"is not allowed because service account {name} does not reference that imagePullSecret"
            yield f'imagePullSecrets[{at}].name="{secret}" {why}'


def _is_mirror(pod: Mapping[str, Any]) -> bool:
    return _MIRROR in (pod["metadata"].get("annotations") or {})


def _names_secret(part: Any) -> bool:
    """Whether any field of containers or volumes is a reference to a secret."""
    if isinstance(part, Mapping):
        return any(key in _SECRET_FIELDS or _names_secret(value) for key, value in part.items())
    return isinstance(part, list) and any(map(_names_secret, part))


def _refused(attributes: Attributes, text: str) -> errors.StatusError:
    return errors.forbidden(attributes.resource.group_resource, attributes.name, text)
