"""Admission plugins: rules about writes that depend on more than the object, one module each.

Belongs here: what may refuse or change a write by its user, its cluster or other objects. Does not belong here: what makes an object valid
in itself (schema, strategies), who may make a request (authz), the chain itself (`registry.admission`).
"""

from kcp_py.admission.certificatesubjectrestriction import CertificateSubjectRestriction
from kcp_py.admission.clusteraccessgrants import ClusterAccessGrantEscalation
from kcp_py.admission.logicalclusterlifecycle import LogicalClusterLifecycle
from kcp_py.admission.namespacelifecycle import NamespaceLifecycle
from kcp_py.admission.resourcequota import ResourceQuota
from kcp_py.admission.tokensecrets import TokenSecrets

__all__ = [
    "CertificateSubjectRestriction",
    "ClusterAccessGrantEscalation",
    "LogicalClusterLifecycle",
    "NamespaceLifecycle",
    "ResourceQuota",
    "TokenSecrets",
]
