"""A Ray cluster of several nodes on this machine, in a process of its own: `python cluster.py NODES`, token by environment.

It writes its address on a line; each line that it reads is the number of a node to remove without a warning.
"""

import sys

from ray.cluster_utils import Cluster


def main() -> None:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=2, object_store_memory=80 * 2**20) for _ in range(int(sys.argv[1]))]
    print(cluster.address, flush=True)
    for line in sys.stdin:
        cluster.remove_node(nodes[int(line)], allow_graceful=False)
        print("removed", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
