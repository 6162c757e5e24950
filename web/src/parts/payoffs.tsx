// The payoff table as a heat map that is a table: each cell says its number, its games and its interval in words, and
// leads to the games. Unknown cells are hatched and say so.
import { url } from "../app/router";
import { clean, number, percent } from "./format";

export interface Payoffs {
  scale: "score" | "payoff";
  rows: string[];
  columns: string[];
  mean: (number | null)[][];
  interval?: ([number, number] | null)[][];
  half_width?: (number | null)[][];
  games: number[][];
  exact?: boolean[][];
}

const STEPS = 7;

export function PayoffTable({ run, payoffs }: { run: string; payoffs: Payoffs }) {
  const known = payoffs.mean.flat().filter((value): value is number => value !== null);
  const most = Math.max(...known.map(Math.abs), 1e-9);
  const hasGames = !payoffs.mean.every((row, i) => row.every((_, j) => payoffs.exact?.[i]?.[j]));
  const shade = (value: number) => {
    const share = payoffs.scale === "score" ? value : (value / most + 1) / 2;
    return Math.min(STEPS - 1, Math.max(0, Math.floor(share * STEPS)));
  };
  return (
    <>
    <p class="quiet">What the row gets against the column: {payoffs.scale === "score" ? "share of points" : "payoff"}, 95 % interval, games. {hasGames ? "A number leads to the games that are kept, “match” to new ones." : "All are computed, none is played."}</p>
    <div class="scroll" tabIndex={0} role="region" aria-label="Payoffs">
      <table class="payoffs">
        <caption class="hidden">Payoffs</caption>
        <thead>
          <tr>
            <th scope="col">row against</th>
            {payoffs.columns.map((name) => <th key={name} scope="col"><bdi>{clean(name, 40)}</bdi></th>)}
          </tr>
        </thead>
        <tbody>
          {payoffs.rows.map((row, i) => (
            <tr key={row}>
              <th scope="row"><bdi>{clean(row, 40)}</bdi></th>
              {payoffs.columns.map((column, j) => {
                const value = payoffs.mean[i]?.[j] ?? null;
                if (row === column && value === null) return <td key={column} class="cell unknown">itself</td>;
                const match = <a class="ask" href={url(["run", run, "league"], { row, column })}>match<span class="hidden"> of {clean(row, 40)} against {clean(column, 40)}</span></a>;
                if (value === null) return <td key={column} class="cell unknown">unknown {match}</td>;
                const told = payoffs.scale === "score" ? percent(value, 0) : number(Math.abs(value) < most * 1e-9 ? 0 : value, 3);
                if (payoffs.exact?.[i]?.[j]) return <td key={column} class={`cell heat-${shade(value)}`}><b>{told}</b><small>exact</small></td>;
                return (
                  <td key={column} class={`cell heat-${shade(value)}`}>
                    <a href={url(["run", run, "episodes"], { policy: row, opponent: column })}>
                      {told}
                      <span class="hidden"> of {clean(row, 40)} against {clean(column, 40)}: show games</span>
                    </a>
                    <small>{uncertainty(payoffs, i, j)}</small> {match}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
    </>
  );
}

function uncertainty(payoffs: Payoffs, i: number, j: number): string {
  const games = `${number(payoffs.games[i]?.[j])} games`;
  const interval = payoffs.interval?.[i]?.[j];
  if (interval) return `${(interval[0] * 100).toFixed(0)} to ${percent(interval[1], 0)}, ${games}`;
  const half = payoffs.half_width?.[i]?.[j];
  return half === null || half === undefined ? games : `± ${number(half, 2)}, ${games}`;
}
