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
        <OfSeat key={seat} title={seats > 1 ? `Share of each policy in seat ${seat}` : "Share of each policy"} history={history.map((each) => ({ generation: each.generation, shares: each.shares[seat] ?? {} }))} />
      ))}
    </>
  );
}

function OfSeat({ title, history }: { title: string; history: readonly { generation: number; shares: Record<string, number> }[] }) {
  const shown = history.slice(-MOST_BARS);
  const names = [...new Set(history.flatMap((each) => Object.keys(each.shares)))];
  const width = WIDTH / shown.length;
  return (
    <>
      <h3>{title}</h3>
      <ul class="legend">
        {names.slice(0, MOST_NAMES).map((name, number) => (
          <li key={name}><span class={`key key-${(number % 8) + 1}`} aria-hidden="true" /><bdi>{clean(name, 40)}</bdi></li>
        ))}
        {names.length > MOST_NAMES && <li class="quiet">and {names.length - MOST_NAMES} more</li>}
      </ul>
      <svg class="stack" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`Shares of ${names.length} policies in ${shown.length} generations; the table below has the numbers`}>
        {shown.map((each, place) => {
          let top = HEIGHT;
          return (
            <g key={each.generation}>
              {names.map((name, number) => {
                const height = (each.shares[name] ?? 0) * HEIGHT;
                top -= height;
                return height > 0 ? <rect key={name} class={`fill-${number % 8}`} x={place * width} y={top} width={Math.max(width - 1, 0.5)} height={height} /> : null;
              })}
            </g>
          );
        })}
      </svg>
      <p class="ends quiet"><span>generation {number(shown[0]?.generation)}</span><span>{number(shown[shown.length - 1]?.generation)}</span></p>
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
