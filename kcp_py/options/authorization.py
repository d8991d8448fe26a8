"""`AuthorizationOptions`: the settings of what callers are allowed, and of what the webhooks of tenants are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kcp_py.options.fields import AUTHORIZATION, WEBHOOKS, setting
from kcp_py.options.kinds import AUTHORIZERS, BOOLEAN, DURATION, NETWORKS, OPTIONAL_PATH, choice


@dataclass(frozen=True, kw_only=True)
class AuthorizationOptions:
    """The settings of what callers are allowed, and of what the webhooks of tenants are."""

    authorization_mode: tuple[str, ...] = setting(
        AUTHORIZERS,
        ("RBAC",),
        AUTHORIZATION,
        "Authorizers in the order in which they are asked: RBAC, Webhook, AlwaysAllow, AlwaysDeny. "
        "The group system:masters is always allowed.",
    )
    authorization_webhook_config_file: Path | None = setting(
        OPTIONAL_PATH, None, AUTHORIZATION, "Kubeconfig of the webhook of --authorization-mode=Webhook."
    )
    authorization_webhook_version: Literal["v1", "v1beta1"] = setting(
        choice("v1", "v1beta1"), "v1beta1", AUTHORIZATION, "Version of the SubjectAccessReview that is sent to the webhook."
    )
    authorization_webhook_cache_authorized_ttl: float = setting(
        DURATION, 300.0, AUTHORIZATION, "How long answers of the webhook that allow are kept; 0: not at all."
    )
    authorization_webhook_cache_unauthorized_ttl: float = setting(
        DURATION, 30.0, AUTHORIZATION, "How long other answers of the webhook are kept; 0: not at all."
    )
    authorization_config: Path | None = setting(
        OPTIONAL_PATH,
        None,
        AUTHORIZATION,
        "File with an AuthorizationConfiguration (apiserver.config.k8s.io), instead of --authorization-mode and --authorization-webhook-*. "
        "Changes take effect without a restart.",
    )
    require_cluster_access: bool = setting(
        BOOLEAN,
        default=True,
        section=AUTHORIZATION,
        text="Whether callers need the verb access on the path / of a logical cluster for anything in it, whatever else is granted to them "
        "(ClusterRole system:kcp:workspace:access). Service accounts of the cluster do not.",
    )

    webhook_networks: tuple[str, ...] = setting(
        NETWORKS,
        ("public",),
        WEBHOOKS,
        "Networks in which webhooks of tenants may be called: public (every address of the internet), networks such as 10.0.0.0/8, "
        "single addresses; empty: none at all.",
    )
