// Every run below the folder: filter, sort, group, and mark some to compare.
import { useEffect, useState } from "preact/hooks";
import { apiUrl, useJson, useTicks } from "../api/client";
import { navigate, query, setQuery, url } from "../app/router";
import { clean, date, duration, number } from "../parts/format";
import { Waiting } from "../parts/notice";
import type { Column } from "../parts/table";
import { Table } from "../parts/table";

export interface RunRow {
  id: string;
  folder: string;
  name?: string;
  state: string;
  part?: string;
  plays: string;
  algorithm: string;
  seed?: number;
  began?: number | null;
  wall_s?: number;
  steps?: number;
  total_steps?: number;
  unit?: string;
  result_text: string;
  error: string;
}

interface Listed {
  rows: RunRow[];
  total: number;
  groups: Record<string, number>;
}

const GROUPS = [["", "nothing"], ["folder", "folder"], ["name", "name"], ["plays", "game or taskset"], ["algorithm", "algorithm"], ["state", "state"], ["seed", "seed"]] as const;
const REFRESH_MS = 5000;

export function Runs() {
  const sort = query.value.get("sort") ?? "began";
  const isUp = query.value.get("order") === "up";
  const label = query.value.get("label") ?? "";
  const filter = query.value.get("filter") ?? "";
  const marked = query.value.getAll("run");
  const listed = useJson<Listed>(apiUrl(["runs"], { sort, order: isUp ? "up" : "down", label, filter }), useTicks(REFRESH_MS));
  const rows = listed.value?.rows ?? [];
  const mark = (id: string, isMarked: boolean) => setQuery({ run: isMarked ? [...marked, id] : marked.filter((each) => each !== id) });
  return (
    <>
      <h1>Runs</h1>
      <form class="controls" role="search" onSubmit={(event) => event.preventDefault()}>
        <Filter value={filter} />
        <label>
          Group by{" "}
          <select value={label} onChange={(event) => setQuery({ label: event.currentTarget.value })}>
            {GROUPS.map(([value, words]) => <option key={value} value={value}>{words}</option>)}
          </select>
        </label>
        <button type="button" disabled={marked.length < 1} onClick={() => navigate(url(["compare"], { run: marked }))}>
          Compare {marked.length || ""}
        </button>
        <span class="quiet" aria-live="polite">{listed.value ? `${listed.value.total} ${listed.value.total === 1 ? "run" : "runs"}` : ""}</span>
      </form>
      <Waiting problem={listed.problem} isLoading={listed.isLoading} has={listed.value !== null} />
      {listed.value && rows.length === 0 && (
        <p>{filter ? "No run has all of these words." : "No runs here yet; start one with: ludus run"}</p>
      )}
      {rows.length > 0 && (
        <Table
          caption="Runs"
          columns={columns(new Set(marked), mark)}
          rows={rows}
          rowKey={(row) => row.id}
          sort={sort}
          isUp={isUp}
          onSort={(key) => setQuery({ sort: key, order: key === sort && !isUp ? "up" : null })}
          {...(label ? { groupOf: (row: RunRow) => String(row[label as keyof RunRow] ?? "") } : {})}
        />
      )}
    </>
  );
}

function Filter({ value }: { value: string }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    const timer = window.setTimeout(() => text !== value && setQuery({ filter: text }), 150);
    return () => window.clearTimeout(timer);
  }, [text]);
  return (
    <label>
      Filter{" "}
      <input type="search" value={text} placeholder="words; -word: without" onInput={(event) => setText(event.currentTarget.value)} />
    </label>
  );
}

function columns(marked: ReadonlySet<string>, mark: (id: string, isMarked: boolean) => void): Column<RunRow>[] {
  return [
    {
      key: "mark",
      title: "compare",
      isTitleHidden: true,
      cell: (row) => (
        <input type="checkbox" aria-label={`compare ${row.id}`} checked={marked.has(row.id)} onChange={(event) => mark(row.id, event.currentTarget.checked)} />
      ),
    },
    { key: "id", title: "run", canSort: true, isRowHeading: true, cell: (row) => <a href={url(["run", row.id])}><bdi>{clean(row.id, 200)}</bdi></a> },
    { key: "state", title: "state", canSort: true, cell: (row) => <State row={row} /> },
    { key: "plays", title: "plays", canSort: true, cell: (row) => <bdi>{clean(row.plays, 120)}</bdi> },
    { key: "algorithm", title: "algorithm", canSort: true, cell: (row) => <bdi>{clean(row.algorithm, 60)}</bdi> },
    { key: "seed", title: "seed", canSort: true, isNumber: true, cell: (row) => row.seed ?? "–" },
    { key: "began", title: "started", canSort: true, isNumber: true, cell: (row) => date(row.began) },
    { key: "wall_s", title: "wall time", canSort: true, isNumber: true, cell: (row) => duration(row.wall_s) },
    { key: "steps", title: "progress", canSort: true, isNumber: true, cell: progress },
    { key: "result_text", title: "last evaluation", canSort: true, cell: (row) => <bdi>{clean(row.error || row.result_text.replaceAll("  ", " · "), 160) || "not yet"}</bdi> },
  ];
}

function progress(row: RunRow): string {
  if (row.steps === undefined) return "–";
  return `${number(row.steps)}${row.total_steps ? ` of ${number(row.total_steps)}` : ""} ${row.unit ?? ""}`;
}

const SIGNS: Record<string, string> = { running: "●", finished: "✓", stopped: "■", failed: "✗", killed: "✗", unreadable: "!" };

export function State({ row }: { row: { state: string; part?: string } }) {
  return (
    <span class={`state ${row.state}`}>
      <span aria-hidden="true">{SIGNS[row.state] ?? "·"} </span>
      {row.state}
      {row.part ? ` (${clean(row.part, 60)})` : ""}
    </span>
  );
}
