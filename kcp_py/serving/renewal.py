"""What happens to certificates while a server runs: replaced files are taken into use, the server's own ones are renewed."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from typing import Final

import structlog

from kcp_py.options import Options
from kcp_py.serving.certificates import CertificateError, ensure_certificates, expiring_certificates
from kcp_py.serving.tls import ReloadingContext

FILES_POLL: Final = 3.0
"""Seconds between looks at the certificate files."""
WARNING_INTERVAL: Final = 86400.0
"""Seconds between two warnings of a certificate that ends soon."""
RENEWAL_POLL: Final = 3600.0
"""Seconds between checks whether an own certificate nears its end."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.serving")


async def maintain_certificates(options: Options, tls: ReloadingContext, *, on_issued: Callable[[], object] | None) -> None:
    """Reload and renew until it is cancelled.

    Args:
        options: says where the files are.
        tls: serves them.
        on_issued: called in a thread when certificates were renewed. May raise OSError, which is logged. None leaves renewal and warnings
            to another process.
    """
    until_renewal = RENEWAL_POLL
    until_warning = WARNING_INTERVAL
    while True:
        await asyncio.sleep(FILES_POLL)
        until_renewal -= FILES_POLL
        try:
            if until_renewal <= 0 and on_issued is not None:
                until_renewal = RENEWAL_POLL
                await asyncio.to_thread(_renew, options, on_issued)
            until_warning -= FILES_POLL
            if until_warning <= 0 and on_issued is not None:
                until_warning = WARNING_INTERVAL
                warn_of_expiry(options)
            if tls.reload_if_changed():
                _log.info("certificates_reloaded")
        except (CertificateError, OSError) as error:
            _log.warning("certificates_not_reloaded", error=" ".join(str(error).split()) or type(error).__name__)


def warn_of_expiry(options: Options) -> None:
    """Log the certificates that end soon and that the server cannot renew."""
    if options.plain_http:
        return
    for path, end in expiring_certificates(options, now=dt.datetime.now(dt.UTC)):
        _log.warning("certificate_expires_soon", file=str(path), not_after=end.isoformat())


def _renew(options: Options, on_issued: Callable[[], object]) -> None:
    if ensure_certificates(options, now=dt.datetime.now(dt.UTC)):
        _log.info("certificates_issued", directory=str(options.pki_directory))
        on_issued()
