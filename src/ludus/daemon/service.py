"""The service: a run that clients drive and watch.

Commands that change something are carried out one after the other, in the order in which they came, by one thread;
those that take long (checkpoint, export, the end of a stop) by a second one, so that a pause never waits for them.
News are collected by a third. Invariant: every command gets exactly one reply, and no client can hold up another one
or the run.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

from ludus.daemon import messages
from ludus.daemon.client import Client
from ludus.daemon.commands import HostedRun, Opener, Refused, is_long
from ludus.daemon.protocol import Command
from ludus.daemon.reports import leela_status
from ludus.daemon.run_watch import News
from ludus.errors import ConfigError, LudusError
from ludus.plugin_frames import in_words
from ludus.runs.staged import AnyRun

log = logging.getLogger(__name__)

MOST_CLIENTS = 32
MOST_COMMANDS = 10_000
"""Commands that may wait for their turn."""
TICK_S = 0.05
NEWS_EVERY_S = 1.0
LAST_NEWS_S = 5.0

Orders = queue.Queue[tuple[Client, Command]]


class Service:
    """Owns the run, or serves one that somebody else has started."""

    def __init__(self, *, opener: Opener | None = None, loop: AnyRun | None = None) -> None:
        """`opener` makes a run of a config, where clients may start one; `loop` is one that is there already."""
        self.run = HostedRun(opener, loop)
        self._has_opener = opener is not None
        self._lock = threading.Lock()
        self._clients: list[Client] = []
        self._quick: Orders = queue.Queue(MOST_COMMANDS)
        self._long: Orders = queue.Queue(MOST_COMMANDS)
        self._ending = threading.Event()
        self._told_failure: AnyRun | None = None
        self._teller = threading.Thread(target=self._tell, name="news", daemon=True)

    # -- clients ---------------------------------------------------------------------------------------------------

    def add(self, client: Client, at_end: Callable[[Client], None] | None = None) -> bool:
        """Serve a client until it says no more; False when there are too many."""
        with self._lock:
            self._clients = [known for known in self._clients if not known.is_gone]
            if len(self._clients) >= MOST_CLIENTS:
                return False
            self._clients.append(client)
        client.listen(self.handle, at_end or self.remove)
        return True

    def remove(self, client: Client) -> None:
        """Forget a client."""
        with self._lock:
            self._clients = [known for known in self._clients if known is not client]
        client.close()

    def handle(self, client: Client, command: Command) -> None:
        """Carry out a command, now or in its turn; called by the client's thread."""
        payload = command.payload
        if isinstance(payload, messages.Subscribe):
            self._subscribe(client, command, payload)
        elif command.type == messages.Status.type:
            client.ack(command, self.run.status().model_dump(exclude_none=True))
        elif isinstance(payload, messages.Shutdown):
            client.ack(command, {})
            self.shut_down()
        else:
            if isinstance(payload, messages.Stop) and self.run.loop is not None:
                self.run.loop.stop()  # at once: whatever waits for the run before it ends sooner
            self._put(self._quick, client, command)

    def _subscribe(self, client: Client, command: Command, payload: messages.Subscribe) -> None:
        unknown = sorted(set(payload.types or ()) - messages.NOTIFICATIONS.keys())
        if unknown:
            reason = f"payload.types: there is no {', '.join(unknown)}; there are: {', '.join(messages.NOTIFICATIONS)}"
            client.refuse(command, "bad_payload", reason)
            return
        client.subscribe(payload.types, payload.interval_s)
        client.ack(command, {"types": list(messages.NOTIFICATIONS) if payload.types is None else sorted(payload.types)})
        news = self.run.news
        for newest in () if news is None else news.newest():
            client.tell(newest)

    # -- beginning and end -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to carry out commands and to tell news."""
        for orders, name in ((self._quick, "commands"), (self._long, "long commands")):
            threading.Thread(target=self._carry_out, args=(orders,), name=name, daemon=True).start()
        self._teller.start()

    def shut_down(self) -> None:
        """Stop the run in order, and let `wait` return."""
        if self.run.loop is not None:
            self.run.loop.stop()
        self._ending.set()

    @property
    def is_ending(self) -> bool:
        """Whether somebody has asked for the end."""
        return self._ending.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until somebody asks for the end; False when that did not happen in time."""
        return self._ending.wait(timeout_s)

    def finish(self) -> None:
        """Wait for the run's end, tell everybody how it ended, and let go of all clients."""
        self.run.wait()
        self.let_go()

    def let_go(self) -> None:
        """Tell everybody how it stands, for the last time. Then nothing of this is at work in the process any more."""
        self._ending.set()
        if self._teller.is_alive():
            self._teller.join(LAST_NEWS_S)
        self._tell_status(time.monotonic(), is_last=True)
        self._tell_of_failure()
        if self.run.news is not None and self._clients:
            self._tell_news(self.run.news)
        for client in list(self._clients):
            client.close()

    # -- threads ---------------------------------------------------------------------------------------------------

    def _put(self, orders: Orders, client: Client, command: Command) -> None:
        try:
            orders.put_nowait((client, command))
        except queue.Full:
            reason = f"{MOST_COMMANDS:,} commands are waiting already; wait for their replies"
            client.refuse(command, "failed", reason)

    def _carry_out(self, orders: Orders) -> None:
        while True:
            client, command = orders.get()
            if orders is self._quick and is_long(command.payload):
                self._put(self._long, client, command)
                continue
            try:
                client.ack(command, self.run.carry_out(command.payload))
            except Refused as refused:
                client.refuse(command, refused.code, str(refused))
            except ConfigError as error:
                client.refuse(command, "bad_config", str(error))
            except Exception as error:
                # Whatever goes wrong in a command is that command's, never the daemon's end.
                if not isinstance(error, LudusError | OSError):
                    log.exception("%s failed", command.type)
                reason = str(error) if isinstance(error, LudusError) else in_words(error)
                client.refuse(command, "failed", reason)

    def _tell(self) -> None:
        next_news = time.monotonic()
        while not self._ending.wait(TICK_S):
            now = time.monotonic()
            if not self._clients:
                continue
            try:
                self._tell_status(now)
                self._tell_of_failure()
                if now >= next_news and self.run.news is not None:
                    next_news = now + NEWS_EVERY_S
                    self._tell_news(self.run.news)
            except Exception:
                # News that cannot be told are no reason to fall silent for ever.
                log.exception("news could not be told")
                next_news = now + NEWS_EVERY_S

    def _tell_status(self, now: float, *, is_last: bool = False) -> None:
        due = [client for client in list(self._clients) if is_last or now >= client.next_status]
        if not due:
            return
        status = self.run.status()
        leela: messages.LeelaStatus | None = None
        for client in due:
            client.next_status = max(client.next_status + client.interval_s, now)
            client.tell(status)
            if client.wants(messages.LeelaStatus.type):
                leela = leela or leela_status(status, took_s=time.monotonic() - now)
                client.tell(leela)

    def _tell_of_failure(self) -> None:
        loop = self.run.loop
        if loop is not None and loop is not self._told_failure and loop.status().stage == "failed":
            self._told_failure = loop
            if self._has_opener:  # elsewhere whoever started the run says so
                log.error("the run failed: %s", loop.status().error)
            self.broadcast(messages.Failure(code="run_failed", message=loop.status().error))

    def _tell_news(self, news: News) -> None:
        wanted = {
            type for client in list(self._clients) for type in ("episode", "league", "match") if client.wants(type)
        }
        for payload in news.poll(episodes="episode" in wanted, league=bool(wanted - {"episode"})):
            if not isinstance(payload, messages.Failure):  # told by the loop itself, once
                self.broadcast(payload)

    def broadcast(self, payload: messages.Payload) -> None:
        """Tell everybody who wants it."""
        for client in list(self._clients):
            client.tell(payload)


class LogToClients(logging.Handler):
    """Tells clients what the process logs."""

    def __init__(self, service: Service) -> None:
        super().__init__(logging.INFO)
        self._service = service

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a line on; whoever logs never has to answer for it."""
        try:
            self._service.broadcast(messages.LogLine(line=self.format(record)[:2000]))
        except Exception:
            self.handleError(record)
