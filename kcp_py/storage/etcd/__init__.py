"""The etcd driver: several servers, one store.

Belongs here: the few messages and calls of etcd's v3 API that the storage contract needs, over one connection pool. Does not belong here:
any other use of etcd (clustering, users, snapshots), and any rule about objects.

Needs etcd 3.4 or newer; 3.5.13 / 3.6 or newer is recommended (see `watch`, "How a watch knows that it is complete"). An empty etcd is at
revision 1, not 0: the counter belongs to etcd, so `etcdctl` and all servers use the same revisions.
"""

from kcp_py.storage.etcd.driver import EtcdStorage
from kcp_py.storage.etcd.options import EtcdOptions

__all__ = ["EtcdOptions", "EtcdStorage"]
