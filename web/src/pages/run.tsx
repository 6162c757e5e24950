// A run, live or as it was left: the loop's rooms, the schedule, evaluations, the machine.
import { useEffect, useState } from "preact/hooks";
import { apiUrl, useJson, useTicks } from "../api/client";
import type { News, Room, Status } from "../api/news";
import { useNews } from "../api/news";
import type { RunPageProps } from "../app/pages";
import { url } from "../app/router";
import { clean, date, duration, number, percent, short } from "../parts/format";
import { Notice, Waiting } from "../parts/notice";
import { Evaluations } from "./evaluations";
import type { RunRow } from "./runs";
import { State } from "./runs";

interface Machine {
  cores: number; load: number | null; memory_bytes: number | null; memory_free_bytes: number | null;
  disk_bytes: number; disk_free_bytes: number; run_processes: number; run_cpu_s: number | null; run_memory_bytes: number | null;
}
export interface RunFacts extends RunRow {
  problems: string[]; stages: string[]; disk_bytes: number; machine: Machine; starts?: number; pid?: number | null;
}

export function Run({ run }: RunPageProps) {
  const news = useNews(run);
  const facts = useJson<RunFacts>(apiUrl(["runs", run]), useTicks(15000));
  const status = news.status;
  return (
    <>
      <Connected news={news} />
      <Waiting problem={facts.problem} isLoading={facts.isLoading} has={facts.value !== null} />
      {facts.value?.problems.map((problem) => <Notice key={problem} kind="warning">{clean(problem)}</Notice>)}
      {news.failure && <Notice kind="error">{clean(news.failure)}</Notice>}
      {facts.value && <Facts facts={facts.value} status={status} />}
      {status && <Loop status={status} />}
      {status && <ScheduleView status={status} />}
      <Evaluations run={run} version={news.metrics} />
      <System run={run} facts={facts.value} isLive={news.connection?.state === "live"} />
    </>
  );
}

/** How things stand with the run, and how old what is shown is. */
export function Connected({ news }: { news: News }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), 1000);
    return () => window.clearInterval(timer);
  }, []);
  const connection = news.connection;
  if (!news.isOpen && news.heardAt) {
    return <Notice kind="warning">ludus web does not answer. What is shown is {duration((now - news.heardAt) / 1000)} old; it is tried again.</Notice>;
  }
  if (!connection) return <p class="quiet" role="status">Looking into the run…</p>;
  const quiet = connection.quiet_s + (news.heardAt ? Math.max(0, now - news.heardAt) / 1000 : 0);
  const skipped = Object.values(connection.skipped).reduce((sum, count) => sum + count, 0);
  const isLost = connection.state === "lost" || connection.state === "ended";
  const isSilent = connection.state === "live" && quiet > 5;
  return (
    <>
      <p class={isLost || isSilent ? "notice warning" : "quiet"} role={isLost ? "alert" : undefined}>
        {clean(connection.words, 300)}
        {connection.state === "live" && ` · heard ${duration(quiet)} ago`}
        {isSilent && ": it is silent; what is shown is as old as that"}
      </p>
      {skipped + connection.unreadable + connection.too_long > 0 && (
        <Notice kind="warning">
          Not shown: {number(skipped)} messages that came too fast, {number(connection.unreadable)} that cannot be read, {number(connection.too_long)} that are too long.
        </Notice>
      )}
    </>
  );
}

function Facts({ facts, status }: { facts: RunFacts; status: Status | null }) {
  const steps = status?.steps || facts.steps || 0;
  const total = status?.total_steps || facts.total_steps || 0;
  const share = status?.share_done || (total ? Math.min(1, steps / total) : 0);
  return (
    <section aria-label="Facts">
      <dl class="facts">
        <Fact name="state"><State row={facts} /> {status && status.activity !== facts.state && <span class="quiet">{status.activity}</span>}</Fact>
        <Fact name="plays"><bdi>{clean(facts.plays) || "–"}</bdi></Fact>
        <Fact name="algorithm">{clean(facts.algorithm) || "–"}</Fact>
        <Fact name="seed">{facts.seed ?? "–"}</Fact>
        <Fact name="started">{date(facts.began)}{(facts.starts ?? 0) > 1 ? `, ${facts.starts} times` : ""}</Fact>
        <Fact name="wall time">{duration(status?.uptime_s || facts.wall_s)}</Fact>
        <Fact name="progress">
          {number(steps)}{total ? ` of ${number(total)}` : ""} {status?.unit ?? facts.unit}{" "}
          <span class="whole"><progress max={1} value={share} aria-label="share done" /> {percent(share, 0)}</span>
        </Fact>
        {status && <Fact name="speed">{status.steps_per_s ? `${short(status.steps_per_s)} ${status.unit}/s` : "at rest"}{status.eta_s !== null ? `, ${duration(status.eta_s)} left` : ""}</Fact>}
        {status && <Fact name="version">{number(status.version)} after {number(status.update)} updates, {number(status.episodes)} episodes</Fact>}
        <Fact name="last evaluation"><bdi>{clean(facts.result_text).replaceAll("  ", " · ") || "not yet"}</bdi></Fact>
        {facts.stages.length > 0 && (
          <Fact name="stages">{facts.stages.map((stage) => <a key={stage} class="spaced" href={url(["run", `${facts.id}/${stage}`])}>{clean(stage)}</a>)}</Fact>
        )}
      </dl>
    </section>
  );
}

function Fact({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}

/** Where each room stands in the picture of the loop: data flows right along the top and left along the bottom. */
const PLACES = ["tasks", "explore", "experience", "buffer", "train", "storage", "policies", "league"];

function Loop({ status }: { status: Status }) {
  if (status.rooms.length === 0) return <p class="quiet">No room has reported yet.</p>;
  const isOver = ["DONE", "STOPPED", "ERROR"].includes(status.stage);
  const known = new Map(status.rooms.map((room) => [room.name, room]));
  const others = status.rooms.filter((room) => !PLACES.includes(room.name));
  return (
    <section aria-label="The loop">
      <h2>The loop</h2>
      <ul class="loop">
        {PLACES.map((name) => {
          const room = known.get(name);
          return room ? <RoomBox key={name} room={room} isOver={isOver} uptime={status.uptime_s} /> : <li key={name} class={`room absent place-${name}`}><b>{name}</b><div class="quiet">not a room of this run</div></li>;
        })}
        {others.map((room) => <RoomBox key={room.name} room={room} isOver={isOver} uptime={status.uptime_s} />)}
      </ul>
      {status.workers.some((worker) => worker.is_silent || worker.restarts > 0) && (
        <Notice kind="warning">
          {status.workers.filter((worker) => worker.is_silent || worker.restarts > 0).map((worker) => `${worker.name}${worker.node ? ` on ${worker.node}` : ""}: ${worker.is_silent ? "gives no sign of life" : ""}${worker.restarts ? ` started again ${worker.restarts} times` : ""}`).join("\n")}
        </Notice>
      )}
      {status.nodes.length > 0 && (
        <ul class="plain" aria-label="Nodes">
          {status.nodes.map((node) => <li key={node.name}>{clean(node.name)}: {node.workers} workers, {number(node.free_cpus)} of {number(node.cpus)} CPUs free, load {number(node.load)}</li>)}
        </ul>
      )}
      {status.loader && (
        <div>
          <h3>Loader</h3>
          {status.loader.problem && <Notice kind="warning">{clean(status.loader.problem)}</Notice>}
          <ul class="plain">
            {status.loader.stages.map((stage) => <li key={stage.name}><b>{clean(stage.name)}</b> load {number(stage.load)}, {number(stage.length)}{stage.capacity ? ` of ${number(stage.capacity)}` : ""} wait{Object.entries(stage.counts).map(([name, count]) => `, ${clean(name)} ${short(count)}`)}</li>)}
          </ul>
        </div>
      )}
      {status.sinks.map((sink) => (
        <p key={sink.name} class={sink.error || sink.dropped ? "notice warning" : "quiet"}>{clean(sink.name)}: {sink.error ? `off: ${clean(sink.error)}` : `${sink.queued} waiting${sink.dropped ? `, ${sink.dropped} dropped` : ""}`}</p>
      ))}
    </section>
  );
}

function RoomBox({ room, isOver, uptime }: { room: Room; isOver: boolean; uptime: number }) {
  const load = isOver ? room.load_total : room.load;
  const rate = isOver ? (uptime > 0 ? room.total / uptime : 0) : room.rate;
  return (
    <li class={`room place-${PLACES.includes(room.name) ? room.name : "other"}`}>
      <b>{clean(room.name)}</b>
      <div class="line">
        <span>load</span>
        {load === null ? <span class="quiet">not measured</span> : <><meter min={0} max={1} value={Math.min(load, 1)} aria-label={`load of ${room.name}`} /> {percent(load, 0)}</>}
      </div>
      <div class="line"><span>{isOver ? "mean rate" : "rate"}</span>{short(rate)} {clean(room.unit)}/s</div>
      <div class="line"><span>total</span>{short(room.total)}{room.dropped > 0 && <b class="warn"> {short(room.dropped)} dropped</b>}</div>
      {room.queues.map((queue) => (
        <div class="line" key={queue.name}>
          <span>{clean(queue.name)}</span>
          {queue.capacity ? <><meter min={0} max={queue.capacity} value={queue.length} aria-label={`${queue.name} of ${room.name}`} /> {short(queue.length)} of {short(queue.capacity)}</> : `${short(queue.length)} waiting`}
        </div>
      ))}
    </li>
  );
}

function ScheduleView({ status }: { status: Status }) {
  const plan = status.schedule;
  const hasCycles = plan.cycles > 0 || plan.updates_to_do > 0 || plan.data_to_wait > 0;
  return (
    <section aria-label="Schedule">
      <h2>Schedule</h2>
      <dl class="facts">
        {hasCycles && <Fact name="cycles done">{number(plan.cycles)}</Fact>}
        {plan.data_to_wait > 0 && <Fact name="new data">{number(plan.new_data)} of {number(plan.data_to_wait)}</Fact>}
        <Fact name="updates">{number(plan.updates)}{plan.updates_to_do ? ` of ${number(plan.updates_to_do)}` : ""}</Fact>
        <Fact name="training">{duration(plan.training_s)}{plan.previous_training_s ? `, before ${duration(plan.previous_training_s)}` : ""}</Fact>
        <Fact name="cycle">{duration(plan.cycle_s)}{plan.previous_cycle_s ? `, before ${duration(plan.previous_cycle_s)}` : ""}</Fact>
      </dl>
    </section>
  );
}

function System({ run, facts, isLive }: { run: string; facts: RunFacts | null; isLive: boolean }) {
  const now = useJson<Machine>(isLive ? apiUrl(["runs", run, "machine"]) : null, useTicks(isLive ? 5000 : 0));
  const [last, setLast] = useState<{ at: number; cpu: number } | null>(null);
  const [cores, setCores] = useState<number | null>(null);
  const machine = now.value ?? facts?.machine;
  useEffect(() => {
    const cpu = now.value?.run_cpu_s;
    if (cpu === null || cpu === undefined) return;
    if (last && now.at > last.at) setCores(Math.max(0, (cpu - last.cpu) / ((now.at - last.at) / 1000)));
    setLast({ at: now.at, cpu });
  }, [now.at]);
  if (!machine) return null;
  const giga = (bytes: number | null) => (bytes === null ? "not known" : `${(bytes / 1e9).toFixed(1)} GB`);
  return (
    <section aria-label="System">
      <h2>System</h2>
      <dl class="facts">
        <Fact name="run's CPU">{machine.run_cpu_s === null ? "nobody runs it" : cores === null ? `${duration(machine.run_cpu_s)} so far` : `${cores.toFixed(2)} of ${machine.cores} cores`}</Fact>
        <Fact name="run's memory">{machine.run_memory_bytes === null ? "nobody runs it" : `${giga(machine.run_memory_bytes)} in ${machine.run_processes} ${machine.run_processes === 1 ? "process" : "processes"}`}</Fact>
        <Fact name="run's disk">{facts ? `${(facts.disk_bytes / 1e6).toFixed(1)} MB` : "–"}</Fact>
        <Fact name="machine">load {number(machine.load)} on {machine.cores} cores, {giga(machine.memory_free_bytes)} of {giga(machine.memory_bytes)} memory free, {giga(machine.disk_free_bytes)} of {giga(machine.disk_bytes)} disk free</Fact>
      </dl>
    </section>
  );
}
