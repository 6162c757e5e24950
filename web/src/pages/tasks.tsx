// The tasksets of a run: how often tasks are solved, over the versions that attempted them; the hardest come first.
import { useState } from "preact/hooks";
import { apiUrl, useJson } from "../api/client";
import { useLive } from "../api/news";
import type { RunPageProps } from "../app/pages";
import { url } from "../app/router";
import { clean, number, percent } from "../parts/format";
import { Notice, Waiting } from "../parts/notice";
import { Table } from "../parts/table";

interface Rate {
  attempts: number;
  solved: number;
  failed: number;
  rate: number | null;
  interval: [number, number] | null;
  reward: number | null;
}

interface Task extends Omit<Rate, "over_time"> {
  row: number;
  newest: string;
  believed: number | null;
  over_time: Record<string, number | null>;
}

interface TaskSet extends Rate {
  name: string;
  purpose: string;
  rows: number | null;
  weight: number | null;
  tasks_attempted: number;
  never_solved: number;
  over_time: Record<string, Rate>;
  tasks: Task[];
}

interface Tasks {
  success: number;
  recorded: number;
  versions: number[];
  width: number;
  sets: TaskSet[];
  problems: string[];
}

const SHOWN = 100;

export function TasksPage({ run }: RunPageProps) {
  const asked = useJson<Tasks>(apiUrl(["runs", run, "tasks"]), useLive(run));
  const tasks = asked.value;
  return (
    <>
      <Waiting problem={asked.problem} isLoading={asked.isLoading} has={tasks !== null} />
      {tasks && tasks.sets.length === 0 && <p>No attempts at tasks are recorded: this run plays games, or has not begun.</p>}
      {tasks && tasks.sets.length > 0 && tasks.problems.map((problem) => <Notice key={problem} kind="warning">{clean(problem, 500)}</Notice>)}
      {tasks && tasks.sets.length > 0 && (
        <p class="quiet">From the {number(tasks.recorded)} attempts that the run keeps. Solved: a reward of {number(tasks.success)} or more.</p>
      )}
      {tasks?.sets.map((set) => <OfSet key={`${set.name} ${set.purpose}`} run={run} set={set} tasks={tasks} />)}
    </>
  );
}

function OfSet({ run, set, tasks }: { run: string; set: TaskSet; tasks: Tasks }) {
  const [shown, setShown] = useState(SHOWN);
  const words = set.purpose === "train" ? "training" : "held-out or evaluated";
  return (
    <section aria-label={`${set.name}, ${words}`}>
      <h2><bdi>{clean(set.name, 80)}</bdi> ({words})</h2>
      <p>
        {percent(set.rate)} of {number(set.attempts)} attempts solved{set.interval ? ` (95 %: ${percent(set.interval[0])} to ${percent(set.interval[1])})` : ""};{" "}
        {number(set.tasks_attempted)}{set.rows ? ` of ${number(set.rows)}` : ""} tasks attempted, {number(set.never_solved)} never solved
        {set.failed ? `, ${number(set.failed)} attempts failed to run` : ""}.{set.weight === null ? "" : ` Weight ${number(set.weight)}.`}
      </p>
      <Table
        caption={`Pass rate of ${clean(set.name, 80)} by version`}
        rows={Object.entries(set.over_time)}
        rowKey={([bucket]) => bucket}
        columns={[
          { key: "version", title: "versions", isRowHeading: true, cell: ([bucket]) => versions(tasks, Number(bucket)) },
          { key: "bar", title: "solved, drawn", isTitleHidden: true, cell: ([, rate]) => <Bar share={rate.rate} /> },
          { key: "rate", title: "solved", isNumber: true, cell: ([, rate]) => percent(rate.rate) },
          { key: "interval", title: "95 %", isNumber: true, cell: ([, rate]) => (rate.interval ? `${percent(rate.interval[0], 0)} to ${percent(rate.interval[1], 0)}` : "–") },
          { key: "reward", title: "mean reward", isNumber: true, cell: ([, rate]) => number(rate.reward) },
          { key: "attempts", title: "attempts", isNumber: true, cell: ([, rate]) => number(rate.attempts) },
        ]}
      />
      <h3>Tasks, the hardest first</h3>
      <Table
        caption={`Tasks of ${clean(set.name, 80)}`}
        rows={set.tasks.slice(0, shown)}
        rowKey={(task) => String(task.row)}
        columns={[
          { key: "row", title: "task", isRowHeading: true, cell: (task) => <a href={url(["run", run, "episodes"], { game: `tasks:${set.name}`, row: task.row })}>{task.row}</a> },
          { key: "rate", title: "solved", isNumber: true, cell: (task) => (task.solved ? percent(task.rate) : "never") },
          { key: "time", title: "over versions", cell: (task) => <Sparks task={task} count={tasks.versions.length} /> },
          { key: "attempts", title: "attempts", isNumber: true, cell: (task) => number(task.attempts) },
          { key: "reward", title: "mean reward", isNumber: true, cell: (task) => number(task.reward) },
          { key: "believed", title: "curriculum's belief", isNumber: true, cell: (task) => (task.believed === null ? "not recorded" : percent(task.believed)) },
          { key: "newest", title: "newest attempt", cell: (task) => <a class="code" href={url(["run", run, "episodes", task.newest])}>{clean(task.newest, 12)}</a> },
        ]}
      />
      {set.tasks.length > shown && <button type="button" onClick={() => setShown(shown * 4)}>Show more of {number(set.tasks.length)} tasks</button>}
    </section>
  );
}

function versions(tasks: Tasks, bucket: number): string {
  const first = tasks.versions[bucket] ?? 0;
  return tasks.width > 1 ? `${first}–${first + tasks.width - 1}` : String(first);
}

function Bar({ share }: { share: number | null }) {
  return (
    <svg class="bar" viewBox="0 0 100 12" aria-hidden="true">
      <rect class="whole" x={0} y={1} width={100} height={10} />
      <rect class="part" x={0} y={1} width={100 * (share ?? 0)} height={10} />
    </svg>
  );
}

function Sparks({ task, count }: { task: Task; count: number }) {
  const told = Object.entries(task.over_time).map(([bucket, rate]) => `${bucket}: ${percent(rate, 0)}`);
  return (
    <svg class="sparks" viewBox={`0 0 ${Math.max(count, 1) * 6} 16`} role="img" aria-label={`by part of the run: ${told.join(", ")}`}>
      {Object.entries(task.over_time).map(([bucket, rate]) => (
        <rect key={bucket} class={rate ? "part" : "none"} x={Number(bucket) * 6} y={rate ? 16 - 15 * rate : 14} width={5} height={rate ? 15 * rate : 2} />
      ))}
    </svg>
  );
}
