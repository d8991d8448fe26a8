"""`PodSecurity`: pods obey the level that the labels of their namespace choose.

The namespace is read with each write of a pod, and the transaction of the write holds as long as it has not changed: a new level counts
from the answer to its write on, also for writes that are under way and on other servers.

Source: k8s.io/pod-security-admission `admission/admission.go`, kubernetes `plugin/pkg/admission/security/podsecurity`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from kcp_py.admission.podsecurity.configuration import PodSecurityConfiguration
from kcp_py.admission.podsecurity.levels import MODES, PREFIX, Policy, Standard, is_stricter, policy_of
from kcp_py.apimachinery import errors, fielderrors
from kcp_py.apimachinery.fielderrors import FieldError
from kcp_py.apimachinery.kinds import NAMESPACES, GroupResource
from kcp_py.golang.quoting import go_quote
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.namespaces import DEFAULT_NAMESPACES, namespace_keys
from kcp_py.request.user import CLUSTER_NAME_EXTRA, FOREIGN_SERVICE_ACCOUNT_PREFIX, SERVICE_ACCOUNT_PREFIX, UserInfo
from kcp_py.storage.contract import Compare, Storage, StorageError

PODS: Final = GroupResource("", "pods")
_TEMPLATES: Final[Mapping[GroupResource, tuple[str, ...]]] = {
    GroupResource("", "podtemplates"): ("template",),
    GroupResource("", "replicationcontrollers"): ("spec", "template"),
    GroupResource("apps", "daemonsets"): ("spec", "template"),
    GroupResource("apps", "deployments"): ("spec", "template"),
    GroupResource("apps", "replicasets"): ("spec", "template"),
    GroupResource("apps", "statefulsets"): ("spec", "template"),
    GroupResource("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
    GroupResource("batch", "jobs"): ("spec", "template"),
}
"""Where the pods of controllers are described."""
_IGNORED_SUBRESOURCES: Final = frozenset({"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"})
_PRIVILEGED: Final = Standard()


class PodSecurity(AdmissionPlugin):
    """Refuses pods that violate the enforced level, and warns of those and of templates that violate others."""

    name = "PodSecurity"
    conforming = True
    operations = frozenset[Operation]({"CREATE", "UPDATE"})
    resources = frozenset({NAMESPACES.group_resource, PODS, *_TEMPLATES})

    def __init__(self, configuration: PodSecurityConfiguration, storage: Storage, tables: ResourceTables) -> None:
        """Make the plugin. `tables` find the pods of a cluster."""
        self._configuration = configuration
        self._storage = storage
        self._tables = tables

    async def validate(self, attributes: Attributes) -> None:
        """Check a pod, a template or the labels of a namespace.

        Raises:
            StatusError: 403 for a pod, 422 for labels, 500 where the namespace of a pod cannot be found.
        """
        resource = attributes.resource
        if attributes.obj is None or not resource.typed:
            return
        if resource.group_resource == NAMESPACES.group_resource:
            if not attributes.subresource:
                await self._check_namespace(attributes, attributes.obj)
        elif resource.group_resource == PODS:
            if attributes.subresource not in _IGNORED_SUBRESOURCES:
                await self._check_pod(attributes, attributes.obj)
        elif not attributes.subresource:
            await self._check_template(attributes, attributes.obj)

    async def _check_namespace(self, attributes: Attributes, namespace: Mapping[str, Any]) -> None:
        labels = _labels(namespace)
        if attributes.operation == "UPDATE" and labels == _labels(attributes.old or {}):
            return
        policy, problems = policy_of(labels, self._configuration.defaults)
        exempt = attributes.namespace in self._configuration.namespaces
        if attributes.operation == "CREATE":
            if problems:
                raise errors.invalid("Namespace", attributes.name, problems)
            if exempt:
                self._warn_of_exemption(attributes, policy, labels)
            return
        before, earlier = policy_of(_labels(attributes.old or {}), self._configuration.defaults)
        if problems and [*map(str, problems)] != [*map(str, earlier)]:
            raise errors.invalid("Namespace", attributes.name, problems)
        new, old = policy.enforce, before.enforce
        if new == old or new.level == "privileged" or (new.version == old.version and not is_stricter(new.level, old.level)):
            return
        if exempt:
            self._warn_of_exemption(attributes, policy, labels)
            return
        pods = await self._tables.find_resource(attributes.cluster, PODS)
        if pods is None or not pods.typed:
            return
        from kcp_py.admission.podsecurity.existing import existing_violations  # noqa: PLC0415 - clusters without pods do not need it

        prefix = pods.keys.namespace_prefix(attributes.cluster, attributes.name)
        classes = self._configuration.runtime_classes
        try:
            found = await existing_violations(self._storage, prefix, attributes.name, new, exempt_classes=classes)
        except StorageError:
            found = ["failed to list pods while checking new PodSecurity enforce level"]
        attributes.warnings.extend(found)

    def _warn_of_exemption(self, attributes: Attributes, policy: Policy, labels: Mapping[str, str]) -> None:
        if policy.is_privileged or all(map(_is_equivalent, policy, self._configuration.defaults)):
            return
        chosen = ", ".join(
            f"{mode}={standard}"
            for mode, standard in zip(MODES, policy, strict=True)
            if standard.level != "privileged" and (PREFIX + mode in labels or f"{PREFIX}{mode}-version" in labels)
        )
        name = go_quote(attributes.name)
        attributes.warnings.append(f"namespace {name} is exempt from Pod Security, and the policy ({chosen}) will be ignored")

    async def _check_pod(self, attributes: Attributes, pod: Mapping[str, Any]) -> None:
        if self._is_exempt(attributes):
            return
        labels = await self._namespace_labels(attributes)
        if labels is None:
            raise errors.internal(f"failed to lookup namespace {go_quote(attributes.namespace)}")
        policy, problems = policy_of(labels, self._configuration.defaults)
        if policy.is_privileged and not problems:
            _note(attributes, "enforce-policy", str(_PRIVILEGED))
            return
        if attributes.operation == "UPDATE" and not is_significant(pod, attributes.old or {}):
            return
        await self._evaluate(attributes, policy, problems, pod, enforce=True)

    async def _check_template(self, attributes: Attributes, obj: Mapping[str, Any]) -> None:
        if self._is_exempt(attributes):
            return
        labels = await self._namespace_labels(attributes)
        if labels is None:
            _note(attributes, "error", f"failed to lookup namespace {go_quote(attributes.namespace)}")
            return
        policy, problems = policy_of(labels, self._configuration.defaults)
        if not problems and policy.warn.level == policy.audit.level == "privileged":
            return
        template: Any = obj
        for step in _TEMPLATES[attributes.resource.group_resource]:
            template = (template or {}).get(step)
        if template is None and attributes.resource.resource == "replicationcontrollers":
            return
        await self._evaluate(attributes, policy, problems, template or {}, enforce=False)

    def _is_exempt(self, attributes: Attributes) -> bool:
        configuration = self._configuration
        for reason, exempt in (
            ("namespace", attributes.namespace in configuration.namespaces),
            ("user", attributes.user.name in configuration.usernames and not _is_named_by_tenants(attributes.user)),
        ):
            if exempt:
                _note(attributes, "exempt", reason)
                return True
        return False

    async def _namespace_labels(self, attributes: Attributes) -> Mapping[str, str] | None:
        """The labels of the namespace of a pod; None where it does not exist. They hold in the transaction of the write."""
        key = namespace_keys(attributes.resource.keys.root).object_key(attributes.cluster, "", attributes.namespace)
        item = await self._storage.get(key)
        condition = Compare(key, mod_revision=0 if item is None else item.mod_revision)
        if condition not in attributes.compares:
            attributes.compares.append(condition)
        if item is None:
            # Namespaces that every cluster has are not stored before they are changed.
            return {} if attributes.namespace in DEFAULT_NAMESPACES else None
        return _labels(orjson.loads(item.value))

    async def _evaluate(
        self, attributes: Attributes, policy: Policy, problems: Sequence[FieldError], pod: Mapping[str, Any], *, enforce: bool
    ) -> None:
        # Most servers have no namespaces with levels.
        from kcp_py.admission.podsecurity.offloading import evaluate_pod  # noqa: PLC0415
        from kcp_py.admission.podsecurity.standards import details  # noqa: PLC0415

        spec = pod.get("spec") or {}
        if (spec.get("runtimeClassName") or "") in self._configuration.runtime_classes:
            _note(attributes, "exempt", "runtimeClass")
            return
        if problems:
            _note(attributes, "error", f"Failed to parse policy: {fielderrors.aggregate(problems)}")
        standards = policy if enforce else policy[1:]
        found = await evaluate_pod(standards, pod.get("metadata") or {}, spec)
        if enforce:
            _note(attributes, "enforce-policy", str(policy.enforce))
        if violations := found[policy.audit]:
            _note(attributes, "audit-violations", f"would violate PodSecurity {go_quote(str(policy.audit))}: {details(violations)}")
        if enforce and (violations := found[policy.enforce]):
            text = f"violates PodSecurity {go_quote(str(policy.enforce))}: {details(violations)}"
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, text)
        if violations := found[policy.warn]:
            attributes.warnings.append(f"would violate PodSecurity {go_quote(str(policy.warn))}: {details(violations)}")


def is_significant(pod: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether an update of a pod is checked: it has other containers, or another image of one."""
    new_spec, old_spec = pod.get("spec") or {}, old.get("spec") or {}
    for member in ("containers", "initContainers"):
        if [_image(one) for one in new_spec.get(member) or ()] != [_image(one) for one in old_spec.get(member) or ()]:
            return True
    images: dict[str, str] = {}
    for one in old_spec.get("ephemeralContainers") or ():
        images.setdefault(one.get("name") or "", _image(one))
    return any(images.get(one.get("name") or "") != _image(one) for one in new_spec.get("ephemeralContainers") or ())


def _is_named_by_tenants(user: UserInfo) -> bool:
    """Whether a cluster vouches for a user, by its own provider: it could choose the name of any other user."""
    return CLUSTER_NAME_EXTRA in user.extra and not user.name.startswith((SERVICE_ACCOUNT_PREFIX, FOREIGN_SERVICE_ACCOUNT_PREFIX))


def _image(container: Mapping[str, Any]) -> str:
    return container.get("image") or ""


def _is_equivalent(one: Standard, other: Standard) -> bool:
    return one == other or one.level == other.level == "privileged"


def _labels(obj: Mapping[str, Any]) -> Mapping[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def _note(attributes: Attributes, key: str, value: str) -> None:
    attributes.audit_annotations[PREFIX + key] = value
