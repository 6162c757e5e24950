// The tokens of a sequence, coloured by a number of each. The colour is never alone: a legend gives each step its range
// and its sign, tokens of others are struck by a dotted line, and the exact numbers stand beside on hover and focus.
import { useMemo, useState } from "preact/hooks";
import { apiUrl, getJson, useJson } from "../api/client";
import { query, setQuery } from "../app/router";
import { number } from "./format";
import { Notice, Waiting } from "./notice";
import { Table } from "./table";

interface TokenPart {
  offset: number;
  total: number;
  update: number | null;
  columns: Record<string, (number | boolean | null)[]>;
  /** Of the whole sequence: between which values nearly all of a column lies. */
  scales: Record<string, [number, number]>;
  texts: string[] | null;
  problem: string;
}

export const COLOURINGS = [
  ["logp", "log-probability (as played)"],
  ["trainer_logp", "log-probability (trainer)"],
  ["advantage", "advantage"],
  ["ratio", "ratio"],
  ["kl", "KL to the reference"],
  ["value", "value"],
  ["reward", "reward"],
  ["version", "version"],
] as const;
const STEPS = 7;
const CHUNK = 400;
const MOST_CHARACTERS = 200;
const SHOWN_AT_ONCE = 2000;
const MOST_AT_ONCE = 8000;

interface TokensProps { run: string; id: string; sequence: number; isWords: boolean }

export function Tokens(props: TokensProps) {
  return <Sequence key={`${props.run} ${props.id} ${props.sequence}`} {...props} />;
}

function Sequence({ run, id, sequence, isWords }: TokensProps) {
  const part = useJson<TokenPart>(tokensUrl(run, id, sequence, 0, SHOWN_AT_ONCE));
  const [more, setMore] = useState<TokenPart[]>([]);
  const [problem, setProblem] = useState("");
  const data = useMemo(() => (part.value ? more.reduce(joined, part.value) : null), [part.value, more]);
  const loaded = lengthOf(data);
  const load = () => {
    getJson<TokenPart>(tokensUrl(run, id, sequence, loaded, Math.min(Math.max(loaded, SHOWN_AT_ONCE), MOST_AT_ONCE))).then(
      (next) => setMore((last) => (next.offset === lengthOf(part.value) + last.reduce((sum, each) => sum + lengthOf(each), 0) ? [...last, next] : last)),
      (error: unknown) => setProblem((error as Error).message),
    );
  };
  const wanted = query.value.get("colour") ?? "";
  const known = COLOURINGS.filter(([name]) => data && name in data.columns);
  const colour = known.some(([name]) => name === wanted) ? wanted : (known.find(([name]) => name === "advantage") ?? known[0])?.[0] ?? "";
  return (
    <>
      <Waiting problem={part.problem} isLoading={part.isLoading} has={data !== null} />
      {data && (
        <>
          {isWords && data.problem && <Notice kind="warning">Tokens are shown by number: {data.problem.slice(0, 500)}</Notice>}
          <label>
            Colour by{" "}
            <select value={colour} onChange={(event) => setQuery({ colour: event.currentTarget.value })}>
              {COLOURINGS.map(([name, words]) => (
                <option key={name} value={name} disabled={!(name in data.columns)}>{words}{name in data.columns ? "" : ": not recorded"}</option>
              ))}
            </select>
          </label>
          <Coloured key={colour} data={data} colour={colour} />
          {problem && <Notice kind="error">{problem}</Notice>}
          {loaded < data.total && (
            <p><button type="button" onClick={load}>Show more</button> <span class="quiet">{loaded.toLocaleString("en")} of {data.total.toLocaleString("en")} tokens are shown</span></p>
          )}
        </>
      )}
    </>
  );
}

function tokensUrl(run: string, id: string, sequence: number, offset: number, limit: number): string {
  return apiUrl(["runs", run, "episodes", id, "tokens"], { sequence, offset, limit });
}

const lengthOf = (part: TokenPart | null) => part?.columns.action?.length ?? 0;

/** Two parts that follow each other, as one. */
function joined(first: TokenPart, next: TokenPart): TokenPart {
  const columns = Object.fromEntries(Object.entries(first.columns).map(([name, column]) => [name, [...column, ...(next.columns[name] ?? [])]]));
  return { ...first, columns, texts: first.texts && next.texts ? [...first.texts, ...next.texts] : null };
}

function Coloured({ data, colour }: { data: TokenPart; colour: string }) {
  const values = data.columns[colour] ?? [];
  const scale = useMemo(() => scaleOf(data.scales[colour]), [data.scales, colour]);
  const [focus, setFocus] = useState(-1);
  const [isTable, setTable] = useState(false);
  const count = lengthOf(data);
  const chunks = Array.from({ length: Math.ceil(count / CHUNK) }, (_, place) => place * CHUNK);
  const point = (event: Event) => {
    const at = event.target instanceof HTMLElement ? event.target.dataset.at : undefined;
    if (at !== undefined) setFocus(Number(at));
  };
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 20, ArrowUp: -20 }[event.key];
    if (!step) return;
    event.preventDefault();
    const to = Math.min(Math.max(0, focus + step), count - 1);
    setFocus(to);
    const list = event.currentTarget as HTMLElement;
    list.querySelector(`[data-at="${to}"]`)?.scrollIntoView({ block: "nearest" });
  };
  return (
    <>
      <Legend scale={scale} />
      <p class="numbers" aria-live="polite">{focus >= 0 ? inNumbers(data, focus) : "Point at a token, or focus the text and use the arrow keys."}</p>
      <div class="tokens" tabIndex={0} role="application" aria-label="Tokens; arrow keys move between them" onPointerOver={point} onClick={point} onKeyDown={move}>
        {chunks.map((start) => <Chunk key={start} start={start} end={Math.min(start + CHUNK, count)} data={data} values={values} scale={scale} focus={focus >= start && focus < start + CHUNK ? focus : -1} />)}
      </div>
      <p><button type="button" aria-expanded={isTable} onClick={() => setTable(!isTable)}>{isTable ? "Hide the table" : "Show as a table"}</button></p>
      {isTable && <TokenTable data={data} count={count} />}
    </>
  );
}

interface ChunkProps {
  start: number;
  end: number;
  data: TokenPart;
  values: readonly unknown[];
  scale: Scale;
  focus: number;
}

/** Drawn again only when something of it has changed: there are many. */
function Chunk({ start, end, data, values, scale, focus }: ChunkProps) {
  return useMemo(() => {
    const spans = [];
    for (let at = start; at < end; at++) {
      const isOwn = data.columns.mask?.[at] === true;
      const step = isOwn ? scale.step(values[at]) : -1;
      spans.push(
        <span key={at} data-at={at} class={`token ${isOwn ? (step < 0 ? "unknown" : `step-${step}`) : "other"}${at === focus ? " focused" : ""}`}>
          {textOf(data, at)}
        </span>,
      );
    }
    return <span class="chunk">{spans}</span>;
  }, [start, end, data, values, scale, focus]);
}

function textOf(data: TokenPart, at: number): string {
  const text = data.texts?.[at] ?? ` ${String(data.columns.action?.[at])}`;
  const visible = text.replace(/[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u0000-\u0009\u000b-\u001f]/g, "\ufffd");
  return visible.length > MOST_CHARACTERS ? `${visible.slice(0, MOST_CHARACTERS)}…` : visible;
}

function inNumbers(data: TokenPart, at: number): string {
  const told = Object.entries(data.columns)
    .filter(([name]) => name !== "mask" && name !== "action")
    .map(([name, column]) => `${name} ${exact(column[at])}`);
  const who = data.columns.mask?.[at] ? "chosen by the policy" : "not chosen by the policy (masked)";
  return `#${data.offset + at} ${JSON.stringify(textOf(data, at))}, token ${String(data.columns.action?.[at])}, ${who}; ${told.join(", ")}`;
}

const exact = (value: unknown) => (value === null || value === undefined ? "not finite" : String(value));

function TokenTable({ data, count }: { data: TokenPart; count: number }) {
  const names = Object.keys(data.columns).filter((name) => name !== "action" && name !== "mask");
  return (
    <Table
      caption="Tokens with their numbers"
      rows={Array.from({ length: Math.min(count, SHOWN_AT_ONCE) }, (_, at) => at)}
      rowKey={String}
      columns={[
        { key: "at", title: "#", isRowHeading: true, cell: (at) => data.offset + at },
        { key: "text", title: "token", cell: (at) => <bdi class="code">{JSON.stringify(textOf(data, at))}</bdi> },
        { key: "mask", title: "chosen", cell: (at) => (data.columns.mask?.[at] ? "yes" : "no") },
        ...names.map((name) => ({ key: name, title: name, isNumber: true, cell: (at: number) => exact(data.columns[name]?.[at]) })),
      ]}
    />
  );
}

interface Scale {
  bounds: number[];
  step: (value: unknown) => number;
}

/** Seven steps: around zero where there are both signs, else from the least to the greatest. */
function scaleOf(ends: [number, number] | undefined): Scale {
  if (!ends) return { bounds: [], step: () => -1 };
  let [low, high] = ends;
  if (low < 0 && high > 0) [low, high] = [-Math.max(-low, high), Math.max(-low, high)];
  if (high <= low) high = low + 1;
  const bounds = Array.from({ length: STEPS + 1 }, (_, step) => low + ((high - low) * step) / STEPS);
  const step = (value: unknown) =>
    typeof value !== "number" || !Number.isFinite(value) ? -1 : Math.min(STEPS - 1, Math.max(0, Math.floor(((value - low) / (high - low)) * STEPS)));
  return { bounds, step };
}

function Legend({ scale }: { scale: Scale }) {
  return (
    <ul class="legend" aria-label="What the colours mean">
      {scale.bounds.slice(0, -1).map((low, step) => (
        <li key={step}><span class={`token step-${step}`}>{step + 1}</span> {number(low, 3)} to {number(scale.bounds[step + 1], 3)}</li>
      ))}
      <li><span class="token other">text</span> not chosen by the policy</li>
      <li><span class="token unknown">text</span> no number</li>
    </ul>
  );
}
