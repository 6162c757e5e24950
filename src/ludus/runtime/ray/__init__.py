"""Workers on the nodes of a Ray cluster.

    loop ── keeper ── connection ═══ Ray ═══ host (an actor) ── worker, unchanged
                      RunFiles               NodeCache

The loop never imports Ray. A child of it, the connection, is Ray's driver and relays each worker's frames as bytes to
a host on some node, which has the worker as its own child process. Invariant: only `connection`, `host_link` and `host`
import Ray, in processes that Ray may end at any moment; nothing of ours is pickled, a payload is always `bytes`.
"""

from ludus.runtime.ray.launcher import Cluster, RayLauncher
from ludus.runtime.ray.messages import NodeQuestion

__all__ = ["Cluster", "NodeQuestion", "RayLauncher"]
