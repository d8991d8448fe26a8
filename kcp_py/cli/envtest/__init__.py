"""Stand-ins for the programs that test environments start: `kube-apiserver`, `etcd` and `kubectl`, as envtest of controller-runtime does.

Here belong the flags of kube-apiserver and what they mean for the options of the server, the process that runs in its place, and the
command that writes the programs. The server itself knows nothing of them: what differs from `kcp-py start` is an option. These modules are
imported by the programs without the rest of the command line, so that they start fast; none of them imports click, except the command.
"""
