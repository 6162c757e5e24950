"""Trainer 1, 2, ... as a worker of its own, on whatever machine: it computes its share of what trainer 0 orders.

Invariant: it keeps nothing that trainer 0 does not have. When trainer 0 is lost it ends too, so that the loop starts
all of them again together.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable

import msgspec

from ludus.config import RunConfig
from ludus.errors import ProtocolError, WorkerError
from ludus.lm.node_models import shape_here, teacher_here
from ludus.plugins import load_plugins
from ludus.runtime import Channel, NodeFiles, Pulse, Stop, run_worker
from ludus.train.meeting import join
from ludus.train.messages import FollowTrainer, TrainerBroken
from ludus.train.state_folders import NodeStates

log = logging.getLogger(__name__)

ToRank = FollowTrainer | Stop
Tell = Callable[[bool], None]
"""Called with whether there is work."""


def serve(channel: Channel[object], pulse: Pulse, files: NodeFiles) -> None:
    """Wait for trainer 0's address, then follow it until it says stop."""
    while True:
        for message, _ in channel.wait(None):
            if isinstance(message, Stop):
                return
            if isinstance(message, FollowTrainer):
                pulse.set_busy(True)
                pulse.tick()
                _follow(message, pulse, files)
                return


def _follow(order: FollowTrainer, pulse: Pulse, files: NodeFiles) -> None:
    load_plugins([str(files.outside(path)) for path in order.plugins])
    config = RunConfig.model_validate_json(order.config)
    order = msgspec.structs.replace(
        order, shape=shape_here(order.shape, files), teacher=teacher_here(order.teacher, files)
    )

    def tell(is_busy: bool) -> None:
        pulse.set_busy(is_busy)
        pulse.tick()

    share = _share_network if config.policy.model is None else _share_language_model
    try:
        share(config, order, join(order.place, order.rank), tell, files)
    except (EOFError, OSError, ProtocolError, RuntimeError, WorkerError) as error:
        log.info("trainer 0 was lost; ending too, to be started again together (%s)", error)
        raise SystemExit(1) from error


def _share_network(config: RunConfig, order: FollowTrainer, sock: socket.socket, tell: Tell, files: NodeFiles) -> None:
    from ludus.train.jax_share import follow

    follow(config, order.shape, rank=order.rank, sock=sock, tell=tell)


def _share_language_model(
    config: RunConfig, order: FollowTrainer, sock: socket.socket, tell: Tell, files: NodeFiles
) -> None:
    from ludus.train.parallel import Announcements, follow_trainer, join_collective

    channel, reducer = join_collective(config, sock, rank=order.rank)
    await_order = Announcements(channel, tell).await_next
    follow_trainer(config, order.shape, order.teacher, reducer, NodeStates(files), await_order)
    reducer.close()


def main() -> None:
    """Entry point of the process."""
    run_worker(ToRank, serve, lambda error: TrainerBroken(error=error))


if __name__ == "__main__":
    main()
