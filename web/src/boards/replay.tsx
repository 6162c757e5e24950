// A game move by move: step, play, jump. The move that is shown is in the address.
import { useEffect, useState } from "preact/hooks";
import { query, setQuery } from "../app/router";
import { reducesMotion } from "../app/theme";
import { clean, lines, number, percent } from "../parts/format";
import { Notice } from "../parts/notice";
import type { Column } from "../parts/table";
import { Table } from "../parts/table";
import type { BoardData, Frame } from "./board";
import { Board } from "./board";

export interface Decision {
  ply: number;
  seat: number;
  logp?: number | null;
  value?: number | null;
  advantage?: number | null;
  ratio?: number | null;
}

const PLAY_MS = reducesMotion ? 1500 : 700;

export function Replay({ board, decisions, seats }: { board: BoardData; decisions: readonly Decision[]; seats: readonly string[] }) {
  const last = Math.max(0, board.frames.length - 1);
  const wanted = query.value.get("move");
  const at = Math.min(Math.max(0, wanted === null ? last : Number(wanted) || 0), last);
  const [isPlaying, setPlaying] = useState(false);
  const go = (to: number) => setQuery({ move: Math.min(Math.max(0, to), last) });
  useEffect(() => {
    if (!isPlaying) return;
    if (at >= last) return setPlaying(false);
    const timer = window.setTimeout(() => go(at + 1), PLAY_MS);
    return () => window.clearTimeout(timer);
  }, [isPlaying, at]);
  const frame = board.frames[at];
  if (!frame) return <Notice kind="warning">{board.problem || "there is no position to show"}</Notice>;
  const onKeyDown = (event: KeyboardEvent) => {
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key];
    if (to === undefined || event.target instanceof HTMLInputElement) return;
    event.preventDefault();
    go(to);
  };
  const play = () => {
    if (!isPlaying && at >= last) go(0);
    setPlaying(!isPlaying);
  };
  return (
    <section class="replay" aria-label="Moves" onKeyDown={onKeyDown}>
      {board.problem && <Notice kind="warning">{board.problem}</Notice>}
      <div class="controls">
        <button type="button" onClick={() => go(0)}>First</button>
        <button type="button" onClick={() => go(at - 1)}>Back</button>
        <button type="button" onClick={play}>{isPlaying ? "Stop" : "Play"}</button>
        <button type="button" onClick={() => go(at + 1)}>Next</button>
        <button type="button" onClick={() => go(last)}>Last</button>
        <label>
          Move <input type="range" min={0} max={last} value={at} onInput={(event) => go(Number(event.currentTarget.value))} /> {at} of {last}
        </label>
      </div>
      <p aria-live="polite">{at ? said(frame, seats) : "The beginning."}</p>
      {frame.cells ? (
        <Board kind={board.kind} rows={board.rows} columns={board.columns} cells={frame.cells} before={board.frames[at - 1]?.cells} />
      ) : (
        <pre class="position" tabIndex={0}>{lines(frame.text)}</pre>
      )}
      {at > 0 && decisions.length > 0 && <Known decisions={decisions.filter((each) => each.ply === frame.ply)} />}
      <h2>All moves</h2>
      {decisions.length === 0 && <p class="quiet">Probabilities, values and advantages are not recorded for this game.</p>}
      <Table
        caption="All moves"
        rows={board.frames.slice(1)}
        rowKey={(row) => String(row.ply)}
        columns={[
          { key: "ply", title: "move", isRowHeading: true, cell: (row) => <button type="button" onClick={() => go(row.ply + 1)} aria-label={`go to move ${row.ply + 1}`}>{row.ply + 1}</button> },
          { key: "said", title: "played", cell: (row) => said(row, seats) },
          ...(decisions.length ? numbers(decisions) : []),
        ]}
      />
    </section>
  );
}

function numbers(decisions: readonly Decision[]): Column<Frame>[] {
  return [
    { key: "chance", title: "probability", isNumber: true, cell: (row) => of(decisions, row, (each) => percent(chance(each.logp))) },
    { key: "value", title: "value", isNumber: true, cell: (row) => of(decisions, row, (each) => number(each.value)) },
    { key: "advantage", title: "advantage", isNumber: true, cell: (row) => of(decisions, row, (each) => ("advantage" in each ? number(each.advantage) : "not recorded")) },
  ];
}

const chance = (logp: number | null | undefined) => (logp === null || logp === undefined ? null : Math.exp(logp));

function of(decisions: readonly Decision[], frame: Frame, show: (each: Decision) => string): string {
  const mine = decisions.filter((each) => each.ply === frame.ply);
  return mine.length ? mine.map(show).join(", ") : "not recorded";
}

function said(frame: Frame, seats: readonly string[]): string {
  return frame.moves.map(([seat, , text]) => `${clean(seats[seat] ?? "", 60)} (seat ${seat}) plays ${clean(text, 200)}`).join("; ");
}

function Known({ decisions }: { decisions: readonly Decision[] }) {
  if (!decisions.length) return <p class="quiet">Probability and value of this move are not recorded.</p>;
  return (
    <>
      {decisions.map((each) => (
        <p key={each.seat}>
          Probability of the move {percent(chance(each.logp))}, value {number(each.value)}
          {"advantage" in each ? `, advantage ${number(each.advantage)}, ratio ${number(each.ratio)}.` : "; its advantage is not recorded."}
        </p>
      ))}
    </>
  );
}
