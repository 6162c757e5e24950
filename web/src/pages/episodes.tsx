// The episodes of a run: search, page, take along; one of them where the address names it.
import { apiUrl, useJson } from "../api/client";
import type { RunPageProps } from "../app/pages";
import { query, url } from "../app/router";
import { Pager, QueryChoice, QueryField } from "../parts/field";
import { clean, duration, number } from "../parts/format";
import { Notice, Waiting } from "../parts/notice";
import { Table } from "../parts/table";
import { EpisodePage } from "./episode";

export interface EpisodeRow {
  id: string;
  task: number;
  attempt: number;
  purpose: string;
  game: string;
  group: string;
  seats: string[];
  returns: number[];
  length: number;
  truncated: boolean;
  error: string;
  duration_s: number;
  sampled: number;
  row: number | null;
  seat: number | null;
  result: string;
}

interface Listed {
  rows: EpisodeRow[];
  offset: number;
  total: number;
  recorded: number;
  left_out: boolean;
  problems: string[];
}

const LIMIT = 100;
const FIELDS = ["policy", "opponent", "result", "purpose", "game", "group", "task", "row", "min_length", "max_length", "min_reward", "max_reward", "id"] as const;
const RESULTS = [["", "any"], ["won", "won"], ["drawn", "drawn"], ["lost", "lost"], ["failed", "failed"], ["cut", "cut off"]] as const;
const PURPOSES = [["", "any"], ["train", "training"], ["evaluate", "evaluation"]] as const;

export function Episodes({ run, rest }: RunPageProps) {
  const [id] = rest;
  return id ? <EpisodePage run={run} id={id} /> : <Search run={run} />;
}

function Search({ run }: { run: string }) {
  const asked = Object.fromEntries(FIELDS.map((name) => [name, query.value.get(name)]));
  const offset = Number(query.value.get("offset")) || 0;
  const listed = useJson<Listed>(apiUrl(["runs", run, "episodes"], { ...asked, offset, limit: LIMIT }));
  const found = listed.value;
  const hasChess = found?.rows.some((row) => row.game.includes("chess"));
  return (
    <>
      <form class="controls" role="search" aria-label="Episodes" onSubmit={(event) => event.preventDefault()}>
        <QueryField name="policy" label="Policy" placeholder="main or main@3" />
        <QueryField name="opponent" label="against" />
        <QueryChoice name="result" label="Result" choices={RESULTS} />
        <QueryChoice name="purpose" label="Played for" choices={PURPOSES} />
        <QueryField name="min_length" label="Moves from" type="number" />
        <QueryField name="max_length" label="Moves up to" type="number" />
        <QueryField name="min_reward" label="Reward from" type="number" />
        <QueryField name="max_reward" label="Reward up to" type="number" />
        <QueryField name="game" label="Game" />
        <QueryField name="row" label="Task" type="number" />
        <QueryField name="group" label="Group" />
        <QueryField name="id" label="Id" />
      </form>
      <Waiting problem={listed.problem} isLoading={listed.isLoading} has={found !== null} />
      {found && (
        <>
          {found.problems.map((problem) => <Notice key={problem} kind="warning">{clean(problem, 500)}</Notice>)}
          {found.left_out && <Notice>Older episodes than the newest {number(found.recorded)} are not searched.</Notice>}
          <p class="quiet">
            {number(found.total)} of {number(found.recorded)} episodes that the run keeps; results are those of {asked.policy ? <bdi>{clean(asked.policy, 60)}</bdi> : "the first seat"}.{" "}
            <a href={apiUrl(["runs", run, "episodes.jsonl"], asked)} download>Download these as JSON lines</a>
            {hasChess && <> · <a href={apiUrl(["runs", run, "episodes.pgn"], asked)} download>as PGN</a></>}
          </p>
          <Pager offset={offset} total={found.total} limit={LIMIT} />
          {found.rows.length > 0 && <EpisodeTable run={run} rows={found.rows} caption="Episodes" />}
        </>
      )}
    </>
  );
}

export function EpisodeTable({ run, rows, caption }: { run: string; rows: readonly EpisodeRow[]; caption: string }) {
  return (
    <Table
      caption={caption}
      rows={rows}
      rowKey={(row) => row.id}
      columns={[
        { key: "id", title: "episode", isRowHeading: true, cell: (row) => <a class="code" href={url(["run", run, "episodes", row.id])}>{clean(row.id, 12)}</a> },
        { key: "game", title: "game", cell: (row) => <bdi>{clean(row.game, 60)}{row.row === null ? "" : ` #${row.row}`}</bdi> },
        { key: "seats", title: "seats", cell: (row) => <bdi>{row.seats.map((seat) => clean(seat, 40)).join(" – ")}</bdi> },
        { key: "result", title: "result", cell: (row) => (row.error ? <span class="bad" title={clean(row.error, 500)}>failed</span> : row.result) },
        { key: "returns", title: "returns", isNumber: true, cell: (row) => row.returns.map((value) => number(value)).join(" / ") },
        { key: "length", title: "moves", isNumber: true, cell: (row) => number(row.length) },
        { key: "sampled", title: "tokens", isNumber: true, cell: (row) => (row.sampled ? number(row.sampled) : "–") },
        { key: "purpose", title: "for", cell: (row) => row.purpose },
        { key: "group", title: "group", cell: (row) => <bdi>{clean(row.group, 24)}</bdi> },
        { key: "took", title: "took", isNumber: true, cell: (row) => (row.duration_s < 60 ? `${number(row.duration_s, 2)} s` : duration(row.duration_s)) },
      ]}
    />
  );
}
