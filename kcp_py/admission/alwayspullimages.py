"""`AlwaysPullImages`: no pod uses an image that a node has from another tenant.

Source: kubernetes `plugin/pkg/admission/alwayspullimages`.
"""

from __future__ import annotations

from kcp_py.admission.pods import PodPlugin, containers_of, pod_of
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.fielderrors import not_supported
from kcp_py.registry.admission import Attributes, Operation


class AlwaysPullImages(PodPlugin):
    """Sets the pull policy of every container to `Always`, of new pods and of those that get another image."""

    name = "AlwaysPullImages"
    operations = frozenset[Operation]({"CREATE", "UPDATE"})

    def mutate(self, attributes: Attributes) -> None:
        """Set the policies."""
        if (pod := pod_of(attributes)) is None or _keeps_images(attributes):
            return
        for _, container in containers_of(pod):
            container["imagePullPolicy"] = "Always"
        for volume in pod["spec"].get("volumes") or ():
            if volume.get("image") is not None:
                volume["image"]["pullPolicy"] = "Always"

    def validate(self, attributes: Attributes) -> None:
        """Find policies that a later plugin has set.

        Raises:
            StatusError: 403.
        """
        if (pod := pod_of(attributes)) is None or _keeps_images(attributes):
            return
        found = [(f"{path}.imagePullPolicy", container.get("imagePullPolicy", "")) for path, container in containers_of(pod)]
        found += [
            (f"spec.volumes[{at}].image.pullPolicy", volume["image"].get("pullPolicy", ""))
            for at, volume in enumerate(pod["spec"].get("volumes") or ())
            if volume.get("image") is not None
        ]
        if problems := [str(not_supported(path, policy, ["Always"])) for path, policy in found if policy != "Always"]:
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, ", ".join(problems))


def _keeps_images(attributes: Attributes) -> bool:
    """Whether a write is an update without a new image."""
    if attributes.operation != "UPDATE":
        return False
    images, before = ({container.get("image") for _, container in containers_of(pod or {})} for pod in (attributes.obj, attributes.old))
    return images <= before
