"""What the decorators of a control plane make: functions of a program as plugins, authenticators, controllers and applications.

Belongs here: adapters from functions and classes of library users to the interfaces that the server's own parts implement. Does not belong
here: the interfaces, which are in the packages of their layers, and their composition (`kcp_py.controlplane`).
"""
