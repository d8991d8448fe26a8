"""`Edge`: a control plane of a test on a port."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import os
import socket
import weakref
from typing import Self

from kcp_py.controlplane import ControlPlane
from kcp_py.options import Options
from kcp_py.serving import server
from kcp_py.serving.certificates import ensure_certificates
from kcp_py.serving.tls import ReloadingContext
from kcp_py.testing.clusters import Access
from kcp_py.testing.directory import PrivateDirectory
from kcp_py.testing.requests import RequestLog

_listeners: weakref.WeakSet[socket.socket] = weakref.WeakSet()


class Edge:
    """The port of a control plane: bound by `prepare`, so that the options name it, and served from `start` to `stop`.

    Attributes:
        options: those that `prepare` got, with the port and the files of the authority.
        access: how clients reach the server; None before `start`.
    """

    def __init__(self, options: Options, listener: socket.socket, tls: ReloadingContext | None) -> None:
        self.options = options
        self.access: Access | None = None
        self._listener = listener
        self._tls = tls
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def prepare(cls, options: Options, directory: PrivateDirectory | None, *, durable: bool = False) -> Self:
        """Bind the port and make certificates.

        Args:
            options: the settings.
            directory: their root directory, which is created; None where it exists.
            durable: whether the certificates have to outlive a power cut, as in a directory that is kept.

        Raises:
            ListenError: the address cannot be listened on.
            OSError: the certificates cannot be written.
        """
        listener = server.listen(options)
        try:
            options = dataclasses.replace(options, secure_port=listener.getsockname()[1])
            tls = None
            if not options.plain_http:
                if directory is not None:
                    directory.make()
                await asyncio.to_thread(ensure_certificates, options, now=dt.datetime.now(dt.UTC), durable=durable)
                options = dataclasses.replace(options, root_ca_file=options.trust_file)
                tls = ReloadingContext(options)
        except BaseException:
            listener.close()
            raise
        _listeners.add(listener)
        return cls(options, listener, tls)

    async def start(self, control_plane: ControlPlane, token: str, requests: RequestLog | None = None) -> None:
        """Accept connections.

        Args:
            control_plane: entered.
            token: of the administrator.
            requests: sees each request.
        """
        ready = asyncio.Event()
        task = asyncio.create_task(
            server.serve(
                control_plane.app if requests is None else requests.wrap(control_plane.app),
                self._listener,
                self.options,
                tls=None if self._tls is None else self._tls.context,
                on_shutdown=control_plane.begin_shutdown,
                on_ready=ready.set,
                stop=self._stop,
            )
        )
        waiting = asyncio.create_task(ready.wait())
        try:
            await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if task.done():
            task.result()
        self._task = task
        authority = None if self._tls is None else self.options.trust_file.read_bytes()
        self.access = Access(self.options.external_url(self.options.secure_port), authority=authority, token=token)

    async def stop(self) -> None:
        """End watches, wait for requests in flight, close the port."""
        self._stop.set()
        task, self._task, self.access = self._task, None, None
        if task is not None:
            await task
        self.close()

    def close(self) -> None:
        """Close the port."""
        self._listener.close()


def _close_in_child() -> None:
    # The port would stay bound for as long as the child lives, and connections to it would get no answer.
    for listener in list(_listeners):
        with contextlib.suppress(OSError):
            listener.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
