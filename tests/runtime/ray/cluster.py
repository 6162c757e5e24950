"""A Ray cluster of several nodes on this machine, in a process of its own; its token comes by environment.

`python cluster.py '[{"num_cpus": 2}, ...]'` writes its address on a line. Each line that it reads is the number of a node
to remove without a warning, or a node to add; each node has a folder of its own for temporary files.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from ray.cluster_utils import Cluster

STORE_BYTES = 80 * 2**20


def main() -> None:
    # By default workers wait for whatever else this machine does, and the head for somebody in the network.
    os.environ |= {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    with tempfile.TemporaryDirectory() as folder:
        nodes: list[Any] = []

        def add(node: dict[str, Any]) -> None:
            disk = Path(folder) / str(len(nodes))
            disk.mkdir()
            nodes.append(cluster.add_node(object_store_memory=STORE_BYTES, env_vars={"TMPDIR": str(disk)}, **node))

        for node in json.loads(sys.argv[1]):
            add(node)
        print(cluster.address, flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            if isinstance(asked, int):
                cluster.remove_node(nodes[asked], allow_graceful=False)
            else:
                add(asked)
            print("done", flush=True)
        cluster.shutdown()


if __name__ == "__main__":
    main()
