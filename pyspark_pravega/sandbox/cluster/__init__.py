"""A Pravega of several processes, to see fail-over: `members` says which, `servers` runs them, `status` tells of them.

`orders` kills and restarts processes of a cluster that another program has started; `zookeeper` is what a start needs
of ZooKeeper. It uses the other modules of the sandbox, but `servers` and `commands`.
"""

from pyspark_pravega.sandbox.cluster.orders import kill, restart
from pyspark_pravega.sandbox.cluster.servers import Cluster, Member
from pyspark_pravega.sandbox.cluster.status import summary, table

__all__ = ["Cluster", "Member", "kill", "restart", "summary", "table"]
