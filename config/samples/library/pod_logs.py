"""`pods/log` and `pods/exec`, served by a program in the place of a kubelet: `kubectl logs -f` and `kubectl exec` work in each cluster.

::

    python config/samples/library/pod_logs.py 8080 &
    alias k='kubectl --server http://127.0.0.1:8080/clusters/team-a'
    k run web --image nginx
    k logs -f web
    k exec -i web -- cat <<< hello
"""

import asyncio
import sys

import uvicorn

from kcp_py import Channels, Connection, ControlPlane, Credentials, Options, UserInfo

control_plane = ControlPlane(Options(storage="memory", builtin_kinds=("pods",)))


@control_plane.authenticator
async def everyone(_credentials: Credentials) -> UserInfo:
    """Each request is that of an administrator, so the server must listen on this machine only."""
    return UserInfo("me", groups=("system:masters",))


@control_plane.subresource("pods", "log", verb="connect", override=True)
async def log(connection: Connection) -> None:
    """Three lines, and one more each second while the client follows."""
    target, follow = connection.target, connection.flag("follow")
    pods = target.resource.key
    await control_plane.client.get(target.cluster_state.name, pods, target.namespace, target.name)  # 404 if there is none
    await connection.start()
    for number in range(3):
        await connection.send(f"{target.cluster_state.name}/{target.name}: line {number}\n")
    while follow:
        await asyncio.sleep(1)
        await connection.send("still running\n")


@control_plane.subresource("pods", "exec", verb="connect", override=True)
async def execute(connection: Connection) -> None:
    """The commands `cat` and `false`."""
    command = connection.query.get("command", ["false"])
    channels = Channels(connection)
    await channels.open()
    if command != ["cat"]:
        await channels.write(f"{command[0]}: not found\n", Channels.STDERR)
        await channels.exit(127)
        return
    async for message in channels:
        if message.closed:
            break
        if message.channel == Channels.STDIN:
            await channels.write(message.data)
    await channels.exit()


async def main(port: int) -> None:
    """Serve until interrupted."""
    async with control_plane:
        await uvicorn.Server(uvicorn.Config(control_plane.app, port=port, log_level="warning")).serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
