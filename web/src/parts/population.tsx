// A population over its generations: who is played how often, how exploitable that is, who came from whom. Each drawing
// has its table.
import { clean, number, percent } from "./format";
import type { Recruit } from "../pages/league";
import { Table } from "./table";

const MOST_BARS = 60;
const MOST_NAMES = 24;
const WIDTH = 640;
const HEIGHT = 200;

export function MetaStrategy({ history }: { history: readonly { generation: number; shares: Record<string, number>[] }[] }) {
  const seats = history[0]?.shares.length ?? 0;
  return (
    <>
      <h2>Meta-strategy over generations</h2>
      {Array.from({ length: seats }, (_, seat) => (
        <OfSeat key={seat} title={seats > 1 ? `seat ${seat}` : "all seats"} history={history.map((each) => ({ generation: each.generation, shares: each.shares[seat] ?? {} }))} />
      ))}
    </>
  );
}

function OfSeat({ title, history }: { title: string; history: readonly { generation: number; shares: Record<string, number> }[] }) {
  const shown = history.slice(-MOST_BARS);
  const names = [...new Set(history.flatMap((each) => Object.keys(each.shares)))];
  const width = WIDTH / shown.length;
  const every = Math.ceil(shown.length / 20);
  return (
    <>
      <h3>{title}</h3>
      <ul class="legend">
        {names.slice(0, MOST_NAMES).map((name, number) => (
          <li key={name}><span class={`key key-${(number % 8) + 1}`} aria-hidden="true" /><bdi>{clean(name, 40)}</bdi></li>
        ))}
        {names.length > MOST_NAMES && <li class="quiet">and {names.length - MOST_NAMES} more</li>}
      </ul>
      <svg class="stack" viewBox={`0 0 ${WIDTH} ${HEIGHT + 16}`} role="img" aria-label={`Shares of ${names.length} policies in ${shown.length} generations; the table below has the numbers`}>
        {shown.map((each, place) => {
          let top = HEIGHT;
          return (
            <g key={each.generation}>
              {names.map((name, number) => {
                const height = (each.shares[name] ?? 0) * HEIGHT;
                top -= height;
                return height > 0 ? <rect key={name} class={`fill-${number % 8}`} x={place * width} y={top} width={Math.max(width - 1, 0.5)} height={height} /> : null;
              })}
              {(place % every === 0 || place === shown.length - 1) && <text x={(place + 0.5) * width} y={HEIGHT + 13}>{each.generation}</text>}
            </g>
          );
        })}
      </svg>
      <Table
        caption={`Meta-strategy of ${title}`}
        rows={[...shown].reverse()}
        rowKey={(row) => String(row.generation)}
        columns={[
          { key: "generation", title: "generation", isRowHeading: true, cell: (row) => number(row.generation) },
          { key: "shares", title: "shares", cell: (row) => <bdi>{Object.entries(row.shares).sort((a, b) => b[1] - a[1]).slice(0, 12).map(([name, share]) => `${clean(name, 40)} ${percent(share)}`).join(", ")}</bdi> },
        ]}
      />
    </>
  );
}

/** A curve on a logarithmic scale where everything is above zero. */
export function Curve({ label, at, values }: { label: string; at: readonly number[]; values: readonly number[] }) {
  const isLog = values.every((value) => value > 0);
  const scaled = values.map((value) => (isLog ? Math.log10(value) : value));
  const [low, high] = [Math.min(...scaled), Math.max(...scaled)];
  const x = (place: number) => 6 + ((WIDTH - 12) * place) / Math.max(values.length - 1, 1);
  const y = (value: number) => HEIGHT - 8 - ((HEIGHT - 16) * (value - low)) / (high - low || 1);
  return (
    <>
      <svg class="curve" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${label}: from ${number(values[0])} to ${number(values[values.length - 1])}${isLog ? ", logarithmic" : ""}; the table below has the numbers`}>
        <polyline points={scaled.map((value, place) => `${x(place).toFixed(1)},${y(value).toFixed(1)}`).join(" ")} />
      </svg>
      <details>
        <summary>As a table</summary>
        <Table
          caption={label}
          rows={at.map((generation, place) => ({ generation, value: values[place] }))}
          rowKey={(row) => String(row.generation)}
          columns={[
            { key: "generation", title: "generation", isRowHeading: true, cell: (row) => number(row.generation) },
            { key: "value", title: label, isNumber: true, cell: (row) => number(row.value, 6) },
          ]}
        />
      </details>
    </>
  );
}

export function Lineage({ lineage }: { lineage: readonly Recruit[] }) {
  const depth = new Map<string, number>();
  const rows = lineage.map((recruit) => {
    const name = nameOf(recruit);
    const level = recruit.parent ? (depth.get(String(recruit.parent)) ?? -1) + 1 : 0;
    depth.set(name, level);
    return { name, level, recruit };
  });
  return (
    <>
      <h2>Lineage</h2>
      <p class="quiet">● belongs for good, ○ in passing; each began with the weights of the policy in its row.</p>
      <Table
        caption="Lineage"
        rows={rows}
        rowKey={(row) => `${row.name} ${row.recruit.generation}`}
        columns={[
          { key: "name", title: "policy", isRowHeading: true, cell: (row) => <bdi>{row.recruit.frozen ? "● " : "○ "}{clean(row.name, 60)}</bdi> },
          { key: "from", title: "began with", cell: (row) => <bdi>{row.recruit.parent ? clean(String(row.recruit.parent), 60) : "fresh weights"}</bdi> },
          { key: "depth", title: "descent", isNumber: true, cell: (row) => row.level },
          { key: "generation", title: "generation", isNumber: true, cell: (row) => number(row.recruit.generation) },
        ]}
      />
    </>
  );
}

function nameOf(recruit: Recruit): string {
  return String(recruit.ref ?? recruit.policy ?? recruit.agent);
}
