"""`PodNodeSelector`: the namespace of a pod decides on which nodes it can run.

The annotation of a namespace belongs to its tenant. The lists of the configuration, by namespaces of all clusters, belong to the operator.

Source: kubernetes `plugin/pkg/admission/podnodeselector`, k8s.io/apimachinery `pkg/labels/labels.go` (`ConvertSelectorToLabelsMap`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.admission.configuration import FLAG, Document
from kcp_py.admission.podnamespaces import namespace_annotations
from kcp_py.admission.pods import PodPlugin, pod_of
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.fielderrors import FieldError, invalid
from kcp_py.apimachinery.meta.names import label_value_problems, qualified_name_problems
from kcp_py.options import OptionsError
from kcp_py.registry.admission import Attributes
from kcp_py.storage.contract import Storage

_ANNOTATION: Final = "scheduler.alpha.kubernetes.io/node-selector"
_MEMBER: Final = "podNodeSelectorPluginConfig"
_DEFAULT: Final = "clusterDefaultNodeSelector"

Labels = Mapping[str, str]


def parse_selectors(document: Document | None) -> Mapping[str, Labels]:
    """The labels that a configuration allows by namespace, and the default of namespaces without the annotation.

    Raises:
        OptionsError: it is invalid. kube-apiserver ignores such a file, and refuses pods later.
    """
    if document is None or document.content is None:
        return {}
    given = document.content.get(_MEMBER) if isinstance(document.content, dict) else document.content
    if given is None:
        return {}
    if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
        raise OptionsError(f"{FLAG}: {document.origin}: {_MEMBER} has to be an object with texts")
    try:
        return {str(name): parse_labels(text) for name, text in given.items()}
    except ValueError as error:
        raise OptionsError(f"{FLAG}: {document.origin}: {error}") from None


def parse_labels(text: str) -> Labels:
    """`a=b,c=d`.

    Raises:
        ValueError: it is something else, with upstream's text.
    """
    found: dict[str, str] = {}
    for part in text.split(",") if text else ():
        pair = part.split("=")
        if len(pair) != 2:
            raise ValueError(f"invalid selector: [{' '.join(pair)}]")
        key, value = (one.strip() for one in pair)
        problem: FieldError | None = None
        if problems := qualified_name_problems(key):
            problem = invalid("<nil>", key, "; ".join(problems))
        elif problems := label_value_problems(value):
            problem = invalid(f"[{key}]", value, "; ".join(problems))
        if problem is not None:
            raise ValueError(str(problem))
        found[key] = value
    return found


class PodNodeSelector(PodPlugin):
    """Adds the node selector of the namespace to new pods, and refuses another one."""

    name = "PodNodeSelector"

    def __init__(self, selectors: Mapping[str, Labels], storage: Storage) -> None:
        """Make the plugin. `selectors` are those of `parse_selectors`."""
        self._selectors = selectors
        self._storage = storage

    async def mutate(self, attributes: Attributes) -> None:
        """Merge the selectors, and check the result.

        Raises:
            StatusError: 403 for a conflict, 500 for an annotation that cannot be parsed.
        """
        if (pod := pod_of(attributes)) is None:
            return
        of_namespace = await self._of_namespace(attributes)
        self._check(attributes, pod, of_namespace)
        if merged := {**of_namespace, **(pod["spec"].get("nodeSelector") or {})}:
            pod["spec"]["nodeSelector"] = merged
        self._check_allowed(attributes, pod)

    async def validate(self, attributes: Attributes) -> None:
        """Check what others made of the pod.

        Raises:
            StatusError: as `mutate`.
        """
        if (pod := pod_of(attributes)) is not None:
            self._check(attributes, pod, await self._of_namespace(attributes))
            self._check_allowed(attributes, pod)

    async def _of_namespace(self, attributes: Attributes) -> Labels:
        text = (await namespace_annotations(self._storage, attributes)).get(_ANNOTATION)
        if text is None:
            return self._selectors.get(_DEFAULT) or {}
        try:
            return parse_labels(text)
        except ValueError as error:
            raise errors.StatusError(500, "", str(error)) from None

    def _check(self, attributes: Attributes, pod: Mapping[str, Any], of_namespace: Labels) -> None:
        given = pod["spec"].get("nodeSelector") or {}
        if any(given.get(key, value) != value for key, value in of_namespace.items()):
            raise _refused(attributes, pod, "pod node label selector conflicts with its namespace node label selector")

    def _check_allowed(self, attributes: Attributes, pod: Mapping[str, Any]) -> None:
        allowed = self._selectors.get(attributes.namespace)
        given = pod["spec"].get("nodeSelector") or {}
        if allowed and any(allowed.get(key) != value for key, value in given.items()):
            raise _refused(attributes, pod, "pod node label selector labels conflict with its namespace whitelist")


def _refused(attributes: Attributes, pod: Mapping[str, Any], text: str) -> errors.StatusError:
    return errors.forbidden(attributes.resource.group_resource, pod["metadata"].get("name") or "", text)
