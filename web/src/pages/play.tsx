// Sit down against a version: boards by click or key, words by text. The game lives in the server; its id is in the
// address, so that a page that is loaded anew goes on.
import { useEffect, useState } from "preact/hooks";
import { apiUrl, getJson, postJson, useJson } from "../api/client";
import type { RunPageProps } from "../app/pages";
import { query, setQuery } from "../app/router";
import { Board } from "../boards/board";
import { clean, lines, number } from "../parts/format";
import { Notice, Waiting } from "../parts/notice";

interface Opponents {
  versions: string[];
  games: string[];
  in_words: boolean;
}

interface Legal {
  move: number | string;
  text: string;
  cells: number[];
}

interface Game {
  id: string;
  policy: string;
  game: string;
  seat: number;
  players: number;
  kind: string;
  rows: number;
  columns: number;
  cells: string;
  text: string;
  turn: boolean;
  legal: Legal[];
  free: boolean;
  moves: [number, string][];
  returns: number[];
  outcome: string;
  error: string;
}

const MOST_BUTTONS = 300;

export function PlayPage({ run }: RunPageProps) {
  const asked = useJson<Opponents>(apiUrl(["runs", run, "opponents"]));
  const id = query.value.get("table") ?? "";
  const [game, setGame] = useState<Game | null>(null);
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const wait = async (answer: Promise<Game>) => {
    setBusy(true);
    setProblem("");
    try {
      setGame(await answer);
    } catch (error) {
      setProblem((error as Error).message);
    } finally {
      setBusy(false);
    }
  };
  useEffect(() => {
    if (id && game?.id !== id) void wait(getJson<Game>(apiUrl(["play", id])));
  }, [id]);
  useEffect(() => {
    if (game && game.id !== id) setQuery({ table: game.id });
  }, [game]);
  const play = (move: number | string) => game && void wait(postJson<Game>(apiUrl(["play", game.id, "move"]), { move }));
  return (
    <>
      <Waiting problem={asked.problem} isLoading={asked.isLoading} has={asked.value !== null} />
      {asked.value && <Start run={run} opponents={asked.value} isBusy={isBusy} begin={(wish) => void wait(postJson<Game>(apiUrl(["play"]), wish))} />}
      {asked.value && !game && asked.value.versions.length > 0 && asked.value.games.length > 0 && <p class="quiet">Seats are counted from 0, which moves first. The game changes nothing of the run.</p>}
      {problem && <Notice kind="error">{clean(problem, 2000)}</Notice>}
      {isBusy && <p class="quiet" role="status">The policy is thinking…</p>}
      {game && <Table key={game.id} game={game} isBusy={isBusy} play={play} />}
    </>
  );
}

function Start({ run, opponents, isBusy, begin }: { run: string; opponents: Opponents; isBusy: boolean; begin: (wish: object) => void }) {
  const [seat, setSeat] = useState("0");
  const [sample, setSample] = useState(false);
  const policy = query.value.get("policy") ?? opponents.versions[0] ?? "";
  const game = query.value.get("game") ?? opponents.games[0] ?? "";
  if (!opponents.versions.length) return <p>This run has published no policy yet.</p>;
  if (!opponents.games.length) return <p>This run plays no games: there is nothing to sit down at.</p>;
  const submit = (event: Event) => {
    event.preventDefault();
    const seed = Math.floor(Math.random() * 2 ** 31);
    begin({ run, policy, game, seat: Number(seat) || 0, seed, sample });
  };
  return (
    <form class="controls" onSubmit={submit}>
      <label>
        Against{" "}
        <select value={policy} onChange={(event) => setQuery({ policy: event.currentTarget.value })}>
          {opponents.versions.map((each) => <option key={each} value={each}>{clean(each, 60)}</option>)}
        </select>
      </label>
      {opponents.games.length > 1 && (
        <label>
          Game{" "}
          <select value={game} onChange={(event) => setQuery({ game: event.currentTarget.value })}>
            {opponents.games.map((each) => <option key={each} value={each}>{clean(each, 80)}</option>)}
          </select>
        </label>
      )}
      <label>Your seat <input type="text" inputMode="numeric" size={2} value={seat} onInput={(event) => setSeat(event.currentTarget.value)} /></label>
      <label><input type="checkbox" checked={sample} onChange={(event) => setSample(event.currentTarget.checked)} /> it samples its moves</label>
      <button type="submit" disabled={isBusy}>New game</button>
    </form>
  );
}

function Table({ game, isBusy, play }: { game: Game; isBusy: boolean; play: (move: number | string) => void }) {
  const byCell = new Map<number, Legal>();
  for (const each of game.legal) for (const cell of each.cells) byCell.set(cell, each);
  const others = game.legal.filter((each) => !each.cells.length);
  const mayPlay = game.turn && !isBusy;
  const onCell = (cell: number) => {
    const found = byCell.get(cell);
    if (found) play(found.move);
  };
  return (
    <section aria-label="The game">
      <h2><bdi>{clean(game.game, 80)}</bdi> against <bdi>{clean(game.policy, 60)}</bdi>, you are seat {game.seat}</h2>
      {game.error && <Notice kind="warning">{clean(game.error, 1000)}</Notice>}
      <p aria-live="polite">
        {game.outcome || (game.returns.length ? "The game is over." : game.turn ? "Your move." : "")}
        {game.returns.length > 0 && ` Returns: ${game.returns.map((value, seat) => `seat ${seat}: ${number(value)}`).join(", ")}.`}
      </p>
      {game.cells ? (
        <Board kind={game.kind} rows={game.rows} columns={game.columns} cells={game.cells} onCell={mayPlay && byCell.size ? onCell : undefined} open={new Set(byCell.keys())} />
      ) : (
        <pre class="position" tabIndex={0}>{lines(game.text)}</pre>
      )}
      {game.turn && (game.free || others.length > 0) && <Words game={game} others={others} isBusy={isBusy} play={play} />}
      {game.moves.length > 0 && (
        <>
          <h3>Moves</h3>
          <ol>{game.moves.map(([seat, text], place) => <li key={place}>seat {seat}{seat === game.seat ? " (you)" : ""}: <bdi>{clean(text, 400)}</bdi></li>)}</ol>
        </>
      )}
    </section>
  );
}

function Words({ game, others, isBusy, play }: { game: Game; others: readonly Legal[]; isBusy: boolean; play: (move: number | string) => void }) {
  const [text, setText] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    const named = game.legal.find((each) => each.text === text.trim() || String(each.move) === text.trim());
    play(named ? named.move : text.trim());
    setText("");
  };
  return (
    <>
      <form class="controls" onSubmit={submit}>
        <label>Your move <input type="text" value={text} autocomplete="off" onInput={(event) => setText(event.currentTarget.value)} /></label>
        <button type="submit" disabled={isBusy || !text.trim()}>Play</button>
      </form>
      {others.length > 0 && (
        <div class="seats" role="group" aria-label="Legal moves">
          {others.slice(0, MOST_BUTTONS).map((each) => (
            <button key={String(each.move)} type="button" disabled={isBusy} onClick={() => play(each.move)}>{clean(each.text, 40)}</button>
          ))}
        </div>
      )}
    </>
  );
}
