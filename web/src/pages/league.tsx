// The league: ladder with its errors, payoffs, and of a population the meta-strategy, lineage and exploitability.
import { useMemo } from "preact/hooks";
import { apiUrl, useJson } from "../api/client";
import { useLive } from "../api/news";
import type { RunPageProps } from "../app/pages";
import { url } from "../app/router";
import { LineChart } from "../charts/line_chart";
import { clean, number, percent } from "../parts/format";
import { Lineage, MetaStrategy } from "../parts/population";
import { MatchPanel } from "../parts/match";
import { Notice, Waiting } from "../parts/notice";
import type { Payoffs } from "../parts/payoffs";
import { PayoffTable } from "../parts/payoffs";
import type { Column } from "../parts/table";
import { Table } from "../parts/table";

interface LadderRow {
  rank?: number | null;
  policy: string;
  seat?: number | null;
  kind?: string;
  elo: number | null;
  elo_error: number | null;
  elo_margin?: number | null;
  mu: number | null;
  sigma: number | null;
  games: number;
  wins: number;
  draws: number;
  losses: number;
  score?: number | null;
  share?: number | null;
  payoff?: number | null;
  alpha_rank?: number | null;
  generation?: number;
}

export interface Recruit {
  ref?: string;
  agent: string;
  parent?: string | null;
  generation: number;
  frozen: boolean;
  [name: string]: unknown;
}

interface League {
  kind: "none" | "league" | "population";
  problems: string[];
  ladder?: LadderRow[];
  payoffs?: Payoffs | null;
  hidden?: number;
  fit?: { contradictions: [string, string][]; upsets: [string, string][]; compared_pairs: number };
  generation?: number;
  meta_strategies?: { generation: number; shares: Record<string, number>[] }[];
  lineage?: Recruit[];
  exploitability?: { label: string; is_exact: boolean; generations: number[]; values: number[] };
}

export function LeaguePage({ run }: RunPageProps) {
  const asked = useJson<League>(apiUrl(["runs", run, "league"]), useLive(run));
  const league = asked.value;
  return (
    <>
      <Waiting problem={asked.problem} isLoading={asked.isLoading} has={league !== null} />
      {league?.problems.map((problem) => <Notice key={problem} kind="warning">{clean(problem, 600)}</Notice>)}
      <MatchPanel run={run} onCounted={asked.reload} />
      {league?.kind === "none" && <p>This run has no league yet: no games against others are recorded.</p>}
      {league?.ladder && <Ladder run={run} rows={league.ladder} />}
      {league?.fit && <Fit fit={league.fit} />}
      {league?.payoffs && (
        <>
          <h2>Payoffs</h2>
          {league.hidden ? <p class="quiet">{league.hidden} more members are not shown.</p> : null}
          <PayoffTable run={run} payoffs={league.payoffs} />
        </>
      )}
      {league?.kind === "population" && !league.payoffs && <p>More than two players: pairs make no table of payoffs.</p>}
      {league?.meta_strategies && league.meta_strategies.length > 0 && <MetaStrategy history={league.meta_strategies} />}
      {league?.exploitability && league.exploitability.values.length > 0 && (
        <>
          <h2>{league.exploitability.label}</h2>
          <p>{league.exploitability.is_exact ? "Exact: computed over the whole game." : "A lower bound: what the best responses that were trained could gain."}</p>
          <Exploitability {...league.exploitability} />
        </>
      )}
      {league?.lineage && league.lineage.length > 0 && <Lineage lineage={league.lineage} />}
    </>
  );
}

function Exploitability({ label, generations, values }: NonNullable<League["exploitability"]>) {
  const key = JSON.stringify([label, generations, values]);
  const curves = useMemo(() => [{ label, x: generations, mean: values, hasPoints: true }], [key]);
  const isLog = values.every((value) => value > 0);
  return (
    <div class="single">
      <LineChart title={label} unit="payoff" meaning={isLog ? "Logarithmic." : ""} xLabel="generation" curves={curves} isLog={isLog} />
    </div>
  );
}

function Fit({ fit }: { fit: NonNullable<League["fit"]> }) {
  if (!fit.compared_pairs) return null;
  return (
    <p class="quiet">
      Of {fit.compared_pairs} pairs with enough games, {fit.upsets.length} have a result against this order (95 %)
      {fit.contradictions.length ? `; ratings that are apart: ${fit.contradictions.slice(0, 5).map(([high, low]) => `${clean(low, 40)} beats ${clean(high, 40)}`).join(", ")}` : ""}.
    </p>
  );
}

const Z95 = 1.959964;

function Ladder({ run, rows }: { run: string; rows: readonly LadderRow[] }) {
  const margin = (row: LadderRow) => row.elo_margin ?? (row.elo_error === null ? null : Z95 * row.elo_error);
  const rated = rows.filter((row) => row.elo !== null);
  const low = Math.min(...rated.map((row) => (row.elo ?? 0) - (margin(row) ?? 0)));
  const high = Math.max(...rated.map((row) => (row.elo ?? 0) + (margin(row) ?? 0)), low + 1);
  const optional: [keyof LadderRow, string, (row: LadderRow) => string][] = [
    ["score", "score", (row) => percent(row.score)],
    ["share", "share", (row) => percent(row.share)],
    ["payoff", "payoff", (row) => number(row.payoff)],
    ["alpha_rank", "α-rank", (row) => percent(row.alpha_rank)],
    ["mu", "TrueSkill", (row) => (row.mu === null ? "–" : `${number(row.mu, 3)} ± ${number(2 * (row.sigma ?? 0), 2)}`)],
    ["seat", "seat", (row) => String(row.seat ?? "–")],
  ];
  const isRated = rated.length > 0;
  const rating: Column<LadderRow>[] = [
    { key: "elo", title: "Elo ± 95 %", isNumber: true, cell: (row) => (row.elo === null ? "not rated" : `${Math.round(row.elo)} ± ${Math.round(margin(row) ?? 0)}`) },
    { key: "bar", title: "Elo, drawn", isTitleHidden: true, cell: (row) => (row.elo === null ? "" : <Whisker value={row.elo} margin={margin(row) ?? 0} low={low} high={high} />) },
  ];
  const results: Column<LadderRow>[] = [
    { key: "results", title: "won–drawn–lost", isNumber: true, cell: (row) => (row.games ? `${row.wins}–${row.draws}–${row.losses}` : "–") },
    { key: "games", title: "games", isNumber: true, cell: (row) => number(row.games) },
  ];
  const columns: Column<LadderRow>[] = [
    { key: "rank", title: "#", isNumber: true, cell: (row) => (row.rank === undefined ? rows.indexOf(row) + 1 : (row.rank ?? "–")) },
    { key: "policy", title: "policy", isRowHeading: true, cell: (row) => <a href={url(["run", run, "episodes"], { policy: row.policy })}><bdi>{clean(row.policy, 60)}</bdi></a> },
    ...(isRated ? rating : []),
    ...optional
      .filter(([name]) => rows.some((row) => row[name] !== null && row[name] !== undefined))
      .map(([name, title, cell]) => ({ key: name, title, isNumber: true, cell })),
    ...(isRated || rows.some((row) => row.games) ? results : []),
  ];
  return (
    <>
      <h2>Ladder</h2>
      <Table caption="Ladder" rows={rows} rowKey={(row) => `${row.policy} ${row.seat ?? ""} ${row.generation ?? ""}`} columns={columns} />
    </>
  );
}

function Whisker({ value, margin, low, high }: { value: number; margin: number; low: number; high: number }) {
  const x = (at: number) => 4 + (112 * (at - low)) / (high - low);
  return (
    <svg class="whisker" viewBox="0 0 120 16" aria-hidden="true">
      <line x1={x(value - margin)} x2={x(value + margin)} y1={8} y2={8} />
      <circle cx={x(value)} cy={8} r={4} />
    </svg>
  );
}
