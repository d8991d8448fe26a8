"""The command line: arguments to options, options to a served control plane; and what an operator asks about a server.

Here belongs what needs a terminal, a process or a listening socket: commands, exit codes, certificates and kubeconfigs on disk, TLS,
signals, the HTTP server that runs the application. How requests are answered does not belong here: that is `kcp_py.server`, put together by
`kcp_py.controlplane`.

Exit codes of every command: 0 done; 1 it could not be done, with one line on stderr that says why; 2 the command line, the environment or
the configuration file is wrong, with one line that says where.

Modules are imported only when their command runs, so that `kcp-py version` and `--help` answer at once.
"""
