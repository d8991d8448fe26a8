"""The core group, and events of `events.k8s.io`: config maps, secrets, namespaces, service accounts, events, limits and quotas.

Belongs here: the rules of these kinds (kubernetes `pkg/apis/core`, `pkg/registry/core`). Does not belong here: kinds of the core group that
come to clusters as CRDs, such as pods (`apis.upstream`).
"""
