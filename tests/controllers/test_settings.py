"""Options of a server reach its controllers."""

from __future__ import annotations

from kcp_py.controllers import ControllerSettings
from kcp_py.options import Options


def test_each_setting_has_an_option() -> None:
    """Of the server and of the process of controllers alike."""
    options = Options(
        namespace_deletion_grace=1,
        legacy_service_account_token_clean_up_period=2,
        event_ttl=3,
        terminated_pod_gc_threshold=4,
        resource_quota_sync_period=6,
        simulate=("workloads",),
        simulate_delay=5,
    )
    assert ControllerSettings.of(options) == ControllerSettings(
        namespace_grace=1,
        token_period=2,
        event_ttl=3,
        terminated_pods=4,
        quota_period=6,
        simulate=("workloads",),
        simulate_delay=5,
    )


def test_the_defaults_are_those_of_the_options() -> None:
    """But for namespaces, whose content a library deletes at once."""
    options = Options()
    assert ControllerSettings.of(options) == ControllerSettings(namespace_grace=options.namespace_deletion_grace)
