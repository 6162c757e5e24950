"""The real dashboard with a flood as its daemon. Run as a module, in a terminal; it says at the end what it read."""

from __future__ import annotations

import json
import sys

from ludus.monitor.live_sources import ChildSource
from ludus.tui.app import Dashboard


def main(rate: str, seconds: str) -> None:
    """Show the flood until somebody quits."""
    source = ChildSource([sys.executable, "-m", "ludus.bench.flood", rate, seconds], graces_s=(0.1, 5.0, 5.0))
    dashboard = Dashboard(source)
    try:
        dashboard.run()
    finally:
        source.close()
    news = dashboard.message_queue.drain()
    print(json.dumps({"received": news.received, "skipped": news.losses.skipped_in_all}))


if __name__ == "__main__":
    main(*sys.argv[1:])
