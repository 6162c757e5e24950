// A match between two members, asked for at a cell: `ludus match` in the server. Its id is in the address, so that a page
// that is loaded anew shows how far it is.
import { useEffect, useState } from "preact/hooks";
import { apiUrl, getJson, postJson, session, useJson } from "../api/client";
import { query, setQuery, url } from "../app/router";
import { clean, lines, number, percent } from "./format";
import { Notice } from "./notice";
import { Table } from "./table";

interface Counts { games: number; wins: number; draws: number; losses: number; score: number | null }
interface Report extends Counts {
  game: string;
  a: string;
  b: string;
  interval: [number, number];
  expected_score: number | null;
  expected_interval: [number, number] | null;
  by_seat: (Counts & { seat: number })[];
  distinct_games: number;
  failed: number;
  recorded?: number;
}
interface Match { id: string; row: string; column: string; games: number; done: number; state: "playing" | "done" | "failed" | "stopped"; problem: string; report: Report | null }

const LOOK_MS = 1000;
const MOST_GAMES = 10000;

export function MatchPanel({ run, onCounted }: { run: string; onCounted: () => void }) {
  const row = query.value.get("row") ?? "";
  const column = query.value.get("column") ?? "";
  return row && column ? <Panel key={`${row} ${column}`} run={run} row={row} column={column} onCounted={onCounted} /> : null;
}

function Panel({ run, row, column, onCounted }: { run: string; row: string; column: string; onCounted: () => void }) {
  const id = query.value.get("match") ?? "";
  const [match, setMatch] = useState<Match | null>(null);
  const [problem, setProblem] = useState("");
  const take = (answer: Promise<Match>) => {
    answer.then(
      (told) => {
        setProblem("");
        setMatch(told);
        if (told.id !== query.value.get("match")) setQuery({ match: told.id });
      },
      (error: unknown) => setProblem((error as Error).message),
    );
  };
  const isPlaying = match?.state === "playing";
  useEffect(() => {
    if (id && match?.id !== id) take(getJson<Match>(apiUrl(["matches", id])));
  }, [id]);
  useEffect(() => {
    if (!isPlaying) return;
    const timer = window.setTimeout(() => take(getJson<Match>(apiUrl(["matches", match.id]))), LOOK_MS);
    return () => window.clearTimeout(timer);
  }, [match]);
  useEffect(() => {
    if (match?.report?.recorded) onCounted();
  }, [match?.report]);
  const ask = (wish: object) => take(postJson<Match>(apiUrl(["matches"]), { run, row, column, ...wish }));
  return (
    <section class="match" aria-label="Match">
      <h2>Match: <bdi>{clean(row, 60)}</bdi> against <bdi>{clean(column, 60)}</bdi></h2>
      {isPlaying ? (
        <p role="status">
          <progress max={match.games} value={match.done} aria-label="games played" /> {number(match.done)} of {number(match.games)} games{" "}
          <button type="button" onClick={() => take(postJson<Match>(apiUrl(["matches", match.id, "stop"]), {}))}>Stop</button>
        </p>
      ) : (
        <Ask run={run} ask={ask} />
      )}
      {problem && <Notice kind="error">{clean(problem, 2000)}</Notice>}
      {match && match.problem && <Notice kind={match.state === "failed" ? "error" : "warning"}>{lines(match.problem)}</Notice>}
      {match?.report && <Result report={match.report} />}
      <p><a href={url(["run", run, "league"])}>Close</a></p>
    </section>
  );
}

function Ask({ run, ask }: { run: string; ask: (wish: object) => void }) {
  const opponents = useJson<{ games: string[] }>(apiUrl(["runs", run, "opponents"]));
  const [games, setGames] = useState("100");
  const [game, setGame] = useState("");
  const [record, setRecord] = useState(false);
  const count = Math.min(Math.max(1, Math.round(Number(games)) || 1), MOST_GAMES);
  const submit = (event: Event) => {
    event.preventDefault();
    ask({ games: count, game, record, seed: Math.floor(Math.random() * 2 ** 31) });
  };
  const keys = opponents.value?.games ?? [];
  return (
    <form class="controls" onSubmit={submit}>
      {keys.length > 1 && (
        <label>
          Game{" "}
          <select value={game || keys[0]} onChange={(event) => setGame(event.currentTarget.value)}>
            {keys.map((each) => <option key={each} value={each}>{clean(each, 80)}</option>)}
          </select>
        </label>
      )}
      <label>Games <input type="text" inputMode="numeric" size={6} value={games} onInput={(event) => setGames(event.currentTarget.value)} /></label>
      {session.value?.may_control && (
        <label><input type="checkbox" checked={record} onChange={(event) => setRecord(event.currentTarget.checked)} /> they count in the ladder</label>
      )}
      <button type="submit">Play {number(count)} games</button>
      {!record && <span class="quiet">Seats alternate. The games are not kept, and count in no table.</span>}
    </form>
  );
}

function Result({ report }: { report: Report }) {
  const rows = [...report.by_seat.map((each) => ({ name: `seat ${each.seat}`, ...each })), { name: "all seats", ...report }];
  const [a, b] = [clean(report.a, 60), clean(report.b, 60)];
  return (
    <>
      <p>
        <bdi>{a}</bdi> scores {percent(report.score)} against <bdi>{b}</bdi> (95 %: {percent(report.interval[0])} to {percent(report.interval[1])}); a draw counts half.{" "}
        {report.expected_score === null || report.expected_interval === null
          ? "The ladder has not rated both."
          : `The ladder expected ${percent(report.expected_score)} (95 %: ${percent(report.expected_interval[0])} to ${percent(report.expected_interval[1])}).`}
        {report.distinct_games < report.games && ` Only ${number(report.distinct_games)} of the games differ; the interval takes all for independent.`}
        {report.failed > 0 && ` ${number(report.failed)} games failed and are not counted.`}
        {report.recorded !== undefined && ` ${number(report.recorded)} games count in the ladder now.`}
      </p>
      <Table
        caption={`Result of ${a}`}
        rows={rows}
        rowKey={(each) => each.name}
        columns={[
          { key: "seat", title: `${a} in`, isRowHeading: true, cell: (each) => each.name },
          { key: "games", title: "games", isNumber: true, cell: (each) => number(each.games) },
          { key: "won", title: "won–drawn–lost", isNumber: true, cell: (each) => `${each.wins}–${each.draws}–${each.losses}` },
          { key: "score", title: "score", isNumber: true, cell: (each) => percent(each.score) },
        ]}
      />
    </>
  );
}
