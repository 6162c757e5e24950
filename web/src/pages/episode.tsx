// One episode: who played, the board or what was said, its tokens, and the other attempts of its group.
import { apiUrl, useJson } from "../api/client";
import { query, setQuery, url } from "../app/router";
import type { BoardData } from "../boards/board";
import type { Decision } from "../boards/replay";
import { Replay } from "../boards/replay";
import { clean, lines, number } from "../parts/format";
import { Notice, Waiting } from "../parts/notice";
import { Tokens } from "../parts/tokens";
import type { EpisodeRow } from "./episodes";
import { EpisodeTable } from "./episodes";

interface Turn {
  role: string;
  seat: number;
  text: string;
  move?: string;
  accepted?: boolean;
}

export interface SequenceCard {
  number: number;
  seat: number;
  turn: number | null;
  policy: string;
  final_reward: number | null;
  shaped_reward: number | null;
  status: string;
  reason: string;
  update: number | null;
  length: number;
  recorded: string[];
}

export interface Episode {
  id: string;
  game: string;
  purpose: string;
  task: number;
  row: number | null;
  group: string;
  seed: string;
  seats: { policy: string; label: string; learns: boolean }[];
  returns: number[];
  rewards: Record<string, number>;
  length: number;
  sampled: number;
  truncated: boolean;
  error: string;
  turns: Turn[];
  board: BoardData | null;
  decisions?: Decision[];
  sequences: SequenceCard[];
  siblings: EpisodeRow[];
}

const MOST_BESIDE = 16;

export function EpisodePage({ run, id }: { run: string; id: string }) {
  const asked = useJson<Episode>(apiUrl(["runs", run, "episodes", id]));
  const episode = asked.value;
  return (
    <>
      <p><a href={url(["run", run, "episodes"])}>All episodes</a></p>
      <Waiting problem={asked.problem} isLoading={asked.isLoading} has={episode !== null} />
      {episode && <Whole run={run} episode={episode} />}
    </>
  );
}

function Whole({ run, episode }: { run: string; episode: Episode }) {
  const others = episode.siblings.filter((row) => row.id !== episode.id);
  const names = episode.seats.map((seat) => seat.label);
  return (
    <>
      <h2>Episode <span class="code">{clean(episode.id, 40)}</span></h2>
      {episode.error && <Notice kind="error">It failed: {clean(episode.error, 2000)}</Notice>}
      <dl class="pairs">
        <dt>Game</dt><dd><bdi>{clean(episode.game, 100)}{episode.row === null ? "" : `, task ${episode.row}`}</bdi></dd>
        {episode.seats.map((seat, place) => (
          <>
            <dt key={`t${place}`}>Seat {place}</dt>
            <dd key={`d${place}`}><bdi>{clean(seat.label, 100)}</bdi>{seat.learns ? ", learns" : ""}: return {number(episode.returns[place])}</dd>
          </>
        ))}
        <dt>Length</dt><dd>{number(episode.length)} moves{episode.sampled ? `, ${number(episode.sampled)} sampled tokens` : ""}{episode.truncated ? ", a limit ended it" : ""}</dd>
        <dt>Played for</dt><dd>{episode.purpose}; seed {episode.seed}</dd>
        {Object.entries(episode.rewards).map(([name, value]) => (
          <>
            <dt key={`r${name}`}>Reward {clean(name, 60)}</dt><dd key={`v${name}`}>{number(value)}</dd>
          </>
        ))}
      </dl>
      {episode.board && <Replay board={episode.board} decisions={episode.decisions ?? []} seats={names} />}
      {episode.turns.length > 0 && <Turns turns={episode.turns} names={names} />}
      <Sequences run={run} episode={episode} />
      {others.length > 0 && (
        <>
          <h2>The group {clean(episode.group, 60)}</h2>
          <EpisodeTable run={run} rows={episode.siblings} caption={`Attempts of group ${clean(episode.group, 60)}`} />
          {episode.turns.length > 0 && <SideBySide run={run} episode={episode} />}
        </>
      )}
    </>
  );
}

/** What each attempt of the group said, beside the others: asked for when somebody wants to see it. */
function SideBySide({ run, episode }: { run: string; episode: Episode }) {
  const isOpen = query.value.get("group") === "open";
  const shown = episode.siblings.slice(0, MOST_BESIDE);
  return (
    <>
      <p>
        <button type="button" aria-expanded={isOpen} onClick={() => setQuery({ group: isOpen ? null : "open" })}>{isOpen ? "Hide the replies" : "Show the replies side by side"}</button>{" "}
        {isOpen && shown.length < episode.siblings.length && <span class="quiet">the first {shown.length} of {episode.siblings.length}</span>}
      </p>
      {isOpen && <ol class="beside" aria-label="Attempts side by side">{shown.map((row) => <Beside key={row.id} run={run} row={row} isThis={row.id === episode.id} />)}</ol>}
    </>
  );
}

function Beside({ run, row, isThis }: { run: string; row: EpisodeRow; isThis: boolean }) {
  const asked = useJson<Episode>(apiUrl(["runs", run, "episodes", row.id]));
  const said = asked.value?.turns.filter((turn) => turn.role !== "told") ?? [];
  const parts = Object.entries(asked.value?.rewards ?? {}).map(([name, value]) => `${clean(name, 40)} ${number(value)}`);
  return (
    <li class={isThis ? "this" : ""}>
      <a class="code" href={url(["run", run, "episodes", row.id], { group: "open" })}>{clean(row.id, 12)}</a>{isThis && " (this one)"}
      <p>reward {row.returns.map((value) => number(value)).join(" / ")}{parts.length > 0 && <span class="quiet">: {parts.join(", ")}</span>}{row.truncated && ", cut off"}</p>
      <Waiting problem={asked.problem} isLoading={asked.isLoading} has={asked.value !== null} />
      {said.map((turn, place) => <pre key={place} tabIndex={0}>{lines(turn.text)}</pre>)}
    </li>
  );
}

function Turns({ turns, names }: { turns: readonly Turn[]; names: readonly string[] }) {
  return (
    <section aria-label="What was said">
      <h2>What was said</h2>
      <ol class="turns">
        {turns.map((turn, place) => (
          <li key={place} class={turn.role}>
            <span class="who">{turn.role === "told" ? "task" : clean(names[turn.seat] ?? `seat ${turn.seat}`, 80)}</span>
            {turn.text.trim() ? <pre tabIndex={0}>{lines(turn.text)}</pre> : <p class="quiet">(nothing)</p>}
            {turn.move !== undefined && <p class="quiet">{turn.move ? <>{turn.accepted ? "plays" : "may not play"} <bdi>{clean(turn.move, 200)}</bdi></> : "no move was found in it"}</p>}
          </li>
        ))}
      </ol>
    </section>
  );
}

function Sequences({ run, episode }: { run: string; episode: Episode }) {
  const { sequences } = episode;
  if (!sequences.length) return <p class="quiet">Tokens and decisions of this episode are not recorded{episode.purpose === "evaluate" ? ": only training is" : " (any more)"}.</p>;
  const shown = Math.min(Number(query.value.get("sequence")) || 0, sequences.length - 1);
  const card = sequences[shown] as SequenceCard;
  const isWords = episode.board === null;
  return (
    <section aria-label="Sequences">
      <h2>{isWords ? "Tokens" : "Decisions"}</h2>
      {sequences.length > 1 && (
        <label>
          Sequence{" "}
          <select value={shown} onChange={(event) => setQuery({ sequence: event.currentTarget.value })}>
            {sequences.map((each) => (
              <option key={each.number} value={each.number}>
                seat {each.seat}{each.turn === null ? "" : `, turn ${each.turn}`}: {each.length} {isWords ? "tokens" : "decisions"}, {each.status}
              </option>
            ))}
          </select>
        </label>
      )}
      <p>
        Seat {card.seat} (<bdi>{clean(card.policy, 60)}</bdi>): reward {number(card.final_reward)}, after transforms {number(card.shaped_reward)}; {card.status}
        {card.reason ? `: ${clean(card.reason, 100)}` : ""}.{" "}
        {card.update === null ? "The trainer's view of it is not recorded (record.traces)." : `The trainer saw it in update ${card.update}.`}
      </p>
      <Tokens run={run} id={episode.id} sequence={shown} isWords={isWords} />
    </section>
  );
}
