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
from contextlib import suppress
from functools import partial

from ludus.daemon.client import Client
from ludus.daemon.commands import COMMANDS_AT_ONCE, Refused, carry_out, conclude, is_long
from ludus.daemon.messages import (
    NOTIFICATIONS,
    Ack,
    Failure,
    LeelaStatus,
    LogLine,
    Payload,
    Shutdown,
    StartTraining,
    Status,
    Stop,
    Subscribe,
)
from ludus.daemon.news import News
from ludus.daemon.protocol import Command
from ludus.daemon.reports import Reporter, idle_status, leela_status
from ludus.errors import ConfigError, LudusError
from ludus.runs.staged import AnyRun

log = logging.getLogger(__name__)

MOST_CLIENTS = 32
TICK_S = 0.05
NEWS_EVERY_S = 1.0
LAST_NEWS_S = 5.0

Opener = Callable[[StartTraining], AnyRun]
Order = tuple[Client, Command]


class Service:
    """Owns the run, or serves one that somebody else has started."""

    def __init__(self, *, opener: Opener | None = None, loop: AnyRun | None = None) -> None:
        """`opener` makes a run of a config, where clients may start one; `loop` is one that is there already."""
        self._opener = opener
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._clients: list[Client] = []
        self._quick: queue.Queue[Order] = queue.Queue(COMMANDS_AT_ONCE)
        self._long: queue.Queue[Order] = queue.Queue(COMMANDS_AT_ONCE)
        self._ending = threading.Event()
        self._told_failure: AnyRun | None = None
        self._teller = threading.Thread(target=self._tell, name="news", daemon=True)
        self.is_exporting = False
        self.loop: AnyRun | None = None
        self._reporter: Reporter | None = None
        self._news: News | None = None
        if loop is not None:
            self.adopt(loop)

    # -- clients ---------------------------------------------------------------------------------------------------

    def add(self, client: Client, at_end: Callable[[Client], None] | None = None) -> bool:
        """Serve a client until it says no more; False when there are too many."""
        with self._lock:
            self._clients = [known for known in self._clients if not known.is_gone]
            if len(self._clients) >= MOST_CLIENTS:
                return False
            self._clients.append(client)
        client.listen(self, at_end or self.remove)
        return True

    def remove(self, client: Client) -> None:
        """Forget a client."""
        with self._lock:
            self._clients = [known for known in self._clients if known is not client]
        client.close()

    def handle(self, client: Client, command: Command) -> None:
        """Carry out a command, now or in its turn; called by the client's thread."""
        payload = command.payload
        if isinstance(payload, Subscribe):
            self._subscribe(client, command, payload)
        elif command.type == Status.type:
            self._ack(client, command, self.status().model_dump(exclude_none=True))
        elif isinstance(payload, Shutdown):
            self._ack(client, command, {})
            self.shut_down()
        else:
            if isinstance(payload, Stop) and self.loop is not None:
                self.loop.stop()  # at once: whatever waits for the run before it ends sooner
            self._put(self._quick, client, command)

    def _subscribe(self, client: Client, command: Command, payload: Subscribe) -> None:
        unknown = sorted(set(payload.types or ()) - NOTIFICATIONS.keys())
        if unknown:
            reason = f"payload.types: there is no {', '.join(unknown)}; there are: {', '.join(NOTIFICATIONS)}"
            client.reply(Failure(code="bad_payload", message=reason, command=command.type), command.id)
            return
        client.subscribe(payload.types, payload.interval_s)
        self._ack(
            client, command, {"types": sorted(payload.types) if payload.types is not None else list(NOTIFICATIONS)}
        )
        news = self._news
        for newest in () if news is None else news.newest():
            client.tell(newest)

    # -- the run ---------------------------------------------------------------------------------------------------

    def adopt(self, loop: AnyRun) -> None:
        """From now on, this is the run."""
        with self._lock:
            self.loop, self._reporter, self._news = loop, Reporter(loop), News(loop)

    def open(self, payload: StartTraining) -> AnyRun:
        """Make the run that a client wants, and start it.

        Raises:
            Refused: there is one already, or this service is there for one run only.
        """
        if self._opener is None:
            raise Refused("wrong_state", "this process has its run; start another with: ludus run, or ludus daemon")
        if self.loop is not None and not self.loop.status().is_over:
            raise Refused("wrong_state", f"the run {self.loop.status().run} is going on; stop it first")
        loop = self._opener(payload)
        self.adopt(loop)
        loop.start()
        return loop

    def status(self) -> Status:
        """What the run is doing."""
        with self._lock:
            reporter = self._reporter
            if reporter is None:
                return idle_status(time.monotonic() - self._began)
            return reporter.status(is_exporting=self.is_exporting)

    def start(self) -> None:
        """Begin to carry out commands and to tell news."""
        for work, name in ((self._do_quick, "commands"), (self._do_long, "long commands")):
            threading.Thread(target=work, name=name, daemon=True).start()
        self._teller.start()

    def shut_down(self) -> None:
        """Stop the run in order, and let `wait` return."""
        if self.loop is not None:
            self.loop.stop()
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
        if self.loop is not None:
            end_of(self.loop)
        self.let_go()

    def let_go(self) -> None:
        """Tell everybody how it stands, for the last time. Then nothing of this is at work in the process any more."""
        self._ending.set()
        if self._teller.is_alive():
            self._teller.join(LAST_NEWS_S)
        self._tell_status(time.monotonic(), is_last=True)
        self._tell_of_failure()
        if self._news is not None and self._clients:
            self._tell_news(self._news)
        for client in list(self._clients):
            client.close()

    # -- threads ---------------------------------------------------------------------------------------------------

    def _put(self, line: queue.Queue[Order], client: Client, command: Command) -> None:
        try:
            line.put_nowait((client, command))
        except queue.Full:
            reason = f"{COMMANDS_AT_ONCE:,} commands are waiting already; wait for their replies"
            client.reply(Failure(code="failed", message=reason, command=command.type), command.id)

    def _do_quick(self) -> None:
        while True:
            client, command = self._quick.get()
            if is_long(command.payload):
                self._put(self._long, client, command)
            else:
                self._reply_to(client, command, partial(carry_out, self, command.payload))

    def _do_long(self) -> None:
        while True:
            client, command = self._long.get()
            self._reply_to(client, command, partial(conclude, self, command.payload))

    def _reply_to(self, client: Client, command: Command, work: Callable[[], dict[str, object]]) -> None:
        try:
            self._ack(client, command, work())
        except Refused as refused:
            client.reply(Failure(code=refused.code, message=str(refused), command=command.type), command.id)
        except ConfigError as error:
            client.reply(Failure(code="bad_config", message=str(error), command=command.type), command.id)
        except Exception as error:
            # Whatever goes wrong in a command is that command's, never the daemon's end.
            if not isinstance(error, LudusError | OSError):
                log.exception("%s failed", command.type)
            reason = str(error) if isinstance(error, LudusError) else f"{type(error).__name__}: {error}"
            client.reply(Failure(code="failed", message=reason, command=command.type), command.id)

    @staticmethod
    def _ack(client: Client, command: Command, result: dict[str, object]) -> None:
        client.reply(Ack(command=command.type, result=result), command.id)

    def _tell(self) -> None:
        next_news = time.monotonic()
        while not self._ending.wait(TICK_S):
            now = time.monotonic()
            if not self._clients:
                continue
            try:
                self._tell_status(now)
                self._tell_of_failure()
                if now >= next_news and self._news is not None:
                    next_news = now + NEWS_EVERY_S
                    self._tell_news(self._news)
            except Exception:
                # News that cannot be told are no reason to fall silent for ever.
                log.exception("news could not be told")
                next_news = now + NEWS_EVERY_S

    def _tell_status(self, now: float, *, is_last: bool = False) -> None:
        due = [client for client in list(self._clients) if is_last or now >= client.next_status]
        if not due:
            return
        status = self.status()
        leela: LeelaStatus | None = None
        for client in due:
            client.next_status = max(client.next_status + client.interval_s, now)
            client.tell(status)
            if client.wants(LeelaStatus.type):
                leela = leela or leela_status(status, took_s=time.monotonic() - now)
                client.tell(leela)

    def _tell_of_failure(self) -> None:
        loop = self.loop
        if loop is not None and loop is not self._told_failure and loop.status().stage == "failed":
            self._told_failure = loop
            log.error("the run failed: %s", loop.status().error)
            self.broadcast(Failure(code="run_failed", message=loop.status().error))

    def _tell_news(self, news: News) -> None:
        wanted = {
            type for client in list(self._clients) for type in ("episode", "league", "match") if client.wants(type)
        }
        for payload in news.poll(episodes="episode" in wanted, league=bool(wanted - {"episode"})):
            if not isinstance(payload, Failure):  # told by the loop itself, once
                self.broadcast(payload)

    def broadcast(self, payload: Payload) -> None:
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
            self._service.broadcast(LogLine(line=self.format(record)[:2000]))
        except Exception:
            self.handleError(record)


def end_of(loop: AnyRun) -> None:
    """Wait for the end of a run, however it ends: that is in its status."""
    with suppress(BaseException):
        loop.wait()
