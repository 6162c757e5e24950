// What the run refused: counts by reason, over the tasks it played, and samples with what was wrong.
import { apiUrl, useJson } from "../api/client";
import { useLive } from "../api/news";
import type { RunPageProps } from "../app/pages";
import { query, setQuery, url } from "../app/router";
import { clean, lines, number } from "../parts/format";
import { Notice, Waiting } from "../parts/notice";
import { Table } from "../parts/table";

interface Sample {
  id: string;
  reason: string;
  detail: string;
  game: string;
  policy: string;
  version: number;
  reward: number | null;
  prompt?: string;
  response?: string;
  actions?: number[];
}

interface Refused {
  counts: Record<string, number>;
  examples: Record<string, string>;
  over_tasks: { from: number[]; width: number; counts: Record<string, number[]> };
  samples: Sample[];
  data: { counts: Record<string, number>; newest: { file?: string; reason?: string; detail?: string }[] };
  quarantined: { file: string; reason: string }[];
  problems: string[];
}

export function RefusedPage({ run }: RunPageProps) {
  const asked = useJson<Refused>(apiUrl(["runs", run, "refused"]), useLive(run));
  const refused = asked.value;
  return (
    <>
      <Waiting problem={asked.problem} isLoading={asked.isLoading} has={refused !== null} />
      {refused?.problems.map((problem) => <Notice key={problem} kind="warning">{clean(problem, 500)}</Notice>)}
      {refused && <Counts refused={refused} />}
      {refused && refused.over_tasks.from.length > 0 && <OverTasks refused={refused} />}
      {refused && refused.samples.length > 0 && <Samples run={run} samples={refused.samples} />}
      {refused && refused.data.newest.length > 0 && (
        <>
          <h2>Refused by the loader</h2>
          <ul>{refused.data.newest.map((row, place) => <li key={place}><bdi>{clean(`${row.reason ?? ""}: ${row.file ?? ""} ${row.detail ?? ""}`, 500)}</bdi></li>)}</ul>
        </>
      )}
      {refused && refused.quarantined.length > 0 && (
        <>
          <h2>In quarantine</h2>
          <ul>{refused.quarantined.map((row, place) => <li key={place}><bdi>{clean(`${row.file}: ${row.reason}`, 500)}</bdi></li>)}</ul>
        </>
      )}
    </>
  );
}

function Counts({ refused }: { refused: Refused }) {
  const rows = Object.entries({ ...refused.data.counts, ...refused.counts }).sort((a, b) => b[1] - a[1]);
  if (!rows.length) return <p>Nothing was refused.</p>;
  return (
    <>
      <h2>By reason</h2>
      <Table
        caption="Refusals by reason"
        rows={rows}
        rowKey={([reason]) => reason}
        columns={[
          { key: "reason", title: "reason", isRowHeading: true, cell: ([reason]) => <bdi>{clean(reason, 80)}</bdi> },
          { key: "count", title: "count", isNumber: true, cell: ([, count]) => number(count) },
          { key: "example", title: "newest", cell: ([reason]) => <bdi>{clean(refused.examples[reason] ?? "–", 400)}</bdi> },
        ]}
      />
    </>
  );
}

function OverTasks({ refused }: { refused: Refused }) {
  const { from, width, counts } = refused.over_tasks;
  const reasons = Object.keys(counts);
  return (
    <>
      <h2>Over the run</h2>
      <Table
        caption="Refusals by task number"
        rows={from.map((_, bucket) => bucket)}
        rowKey={String}
        columns={[
          { key: "from", title: "tasks", isRowHeading: true, cell: (bucket) => `${number(from[bucket])} to ${number((from[bucket] ?? 0) + width - 1)}` },
          ...reasons.map((reason) => ({ key: reason, title: clean(reason, 40), isNumber: true, cell: (bucket: number) => number(counts[reason]?.[bucket] ?? 0) })),
        ]}
      />
    </>
  );
}

function Samples({ run, samples }: { run: string; samples: readonly Sample[] }) {
  const reasons = [...new Set(samples.map((sample) => sample.reason))];
  const reason = query.value.get("reason") ?? "";
  const shown = samples.filter((sample) => !reason || sample.reason === reason);
  return (
    <>
      <h2>Samples</h2>
      <label>
        Reason{" "}
        <select value={reason} onChange={(event) => setQuery({ reason: event.currentTarget.value })}>
          <option value="">all</option>
          {reasons.map((each) => <option key={each} value={each}>{clean(each, 60)}</option>)}
        </select>
      </label>
      {shown.map((sample) => (
        <article key={`${sample.id} ${sample.reason}`} class="sample">
          <h3><bdi>{clean(sample.reason, 60)}</bdi>: <a class="code" href={url(["run", run, "episodes", sample.id.split("/")[0] ?? ""])}>{clean(sample.id, 40)}</a></h3>
          <p><bdi>{clean(sample.detail, 500)}</bdi></p>
          <p class="quiet"><bdi>{clean(sample.game, 60)}, {clean(sample.policy, 40)}@{sample.version}</bdi>, reward {number(sample.reward)}</p>
          {sample.prompt !== undefined && <pre class="told" tabIndex={0}>{lines(sample.prompt)}</pre>}
          {sample.response !== undefined && <pre tabIndex={0}>{lines(sample.response)}</pre>}
          {sample.actions && <p class="code">{sample.actions.slice(0, 200).join(" ")}</p>}
        </article>
      ))}
    </>
  );
}
