// Several runs side by side: curves overlaid, seeds as mean and band, and only the keys of the config that differ.
import { useMemo } from "preact/hooks";
import { apiUrl, useJson } from "../api/client";
import { query, setQuery, url } from "../app/router";
import { LineChart } from "../charts/line_chart";
import { clean, number } from "../parts/format";
import { Notice, Waiting } from "../parts/notice";
import { AXES, Bound } from "./curves";
import type { RunRow } from "./runs";
import { State } from "./runs";

interface Differences {
  rows: RunRow[];
  config: { key: string; values: unknown[] }[];
  results: { name: string; values: (number | null)[] }[];
  metrics: { name: string; runs: number }[];
  problems: string[];
}
interface Joined {
  unit: string;
  meaning: string;
  groups: { label: string; runs: number; x: number[]; low: number[]; mean: number[]; high: number[] }[];
  missing: string[];
  problems: string[];
}

const LABELS = [["", "each run"], ["folder", "folder"], ["name", "name"], ["plays", "game or taskset"], ["algorithm", "algorithm"], ["seed", "seed"]] as const;
const FIRST = /^(evaluate\/[^/]+\/(score|success|return)|evaluate\/return|psro\/nash_conv|train\/reward|explore\/reward|train\/loss)$/;

export function Compare() {
  const runs = query.value.getAll("run");
  const told = useJson<Differences>(runs.length ? apiUrl(["compare"], { run: runs }) : null);
  const label = query.value.get("label") ?? "";
  const axis = query.value.get("x") ?? "step";
  const chosen = query.value.getAll("m");
  const metrics = told.value?.metrics ?? [];
  const labels = [...new Set((told.value?.rows ?? []).map((row) => (label ? String(row[label as keyof RunRow] ?? "") : row.id)))];
  const shown = chosen.length ? chosen : metrics.filter((metric) => FIRST.test(metric.name)).map((metric) => metric.name).slice(0, 8);
  if (runs.length === 0) return <><h1>Compare</h1><p>Mark runs in the <a href="/">list of runs</a> to compare them.</p></>;
  return (
    <>
      <h1>Compare</h1>
      <form class="controls" onSubmit={(event) => event.preventDefault()}>
        <label>
          A curve for{" "}
          <select value={label} onChange={(event) => setQuery({ label: event.currentTarget.value })}>
            {LABELS.map(([value, words]) => <option key={value} value={value}>{words}</option>)}
          </select>
        </label>
        <label>
          Along{" "}
          <select value={axis} onChange={(event) => setQuery({ x: event.currentTarget.value, from: null, to: null })}>
            {AXES.map(([value, words]) => <option key={value} value={value}>{words}</option>)}
          </select>
        </label>
        <Bound name="from" /> <Bound name="to" />
        <label>
          Metric{" "}
          <select value="" onChange={(event) => event.currentTarget.value && setQuery({ m: [...new Set([...shown, event.currentTarget.value])] })}>
            <option value="">add one</option>
            {metrics.map((metric) => <option key={metric.name} value={metric.name}>{clean(metric.name, 100)}{metric.runs < runs.length ? ` (${metric.runs} of ${runs.length})` : ""}</option>)}
          </select>
        </label>
        {chosen.length > 0 && <button type="button" onClick={() => setQuery({ m: null })}>Usual metrics</button>}
      </form>
      <Waiting problem={told.problem} isLoading={told.isLoading} has={told.value !== null} />
      {told.value?.problems.map((problem) => <Notice key={problem} kind="warning">{clean(problem)}</Notice>)}
      <div class="charts">{shown.map((name) => <JoinedChart key={name} name={name} runs={runs} label={label} axis={axis} labels={labels} />)}</div>
      {told.value && <Tables told={told.value} runs={runs} />}
    </>
  );
}

function JoinedChart({ name, runs, label, axis, labels }: { name: string; runs: string[]; label: string; axis: string; labels: string[] }) {
  const [from, to] = [query.value.get("from"), query.value.get("to")];
  const told = useJson<Joined>(apiUrl(["compare", "series"], { run: runs, name, x: axis, label, from, to, buckets: 400 }));
  const curves = useMemo(
    () =>
      (told.value?.groups ?? []).map((group) => ({
        label: group.runs > 1 ? `${group.label || "–"} (${group.runs} runs)` : group.label || "–",
        x: group.x,
        mean: group.mean,
        ...(group.runs > 1 ? { low: group.low, high: group.high } : {}),
        hasPoints: group.x.length < 40,
        ...(labels.includes(group.label) ? { place: labels.indexOf(group.label) } : {}),
      })),
    [told.value, labels.join("\n")],
  );
  return (
    <div>
      {told.problem && <Notice kind="error">{told.problem}</Notice>}
      {curves.length > 0 && (
        <LineChart
          title={name}
          unit={told.value?.unit ?? ""}
          meaning={told.value?.meaning ?? ""}
          xLabel={AXES.find(([key]) => key === axis)?.[1] ?? axis}
          curves={curves}
          isZoomed={from !== null || to !== null}
          onZoom={(low, high) => setQuery({ from: low, to: high }, { replace: false })}
        />
      )}
      {told.value?.problems.map((problem) => <p key={problem} class="quiet">{clean(problem)}</p>)}
      {told.value && told.value.missing.length > 0 && <p class="quiet">{clean(name)} is not recorded in {told.value.missing.map((id) => clean(id)).join(", ")}.</p>}
    </div>
  );
}

function Tables({ told, runs }: { told: Differences; runs: string[] }) {
  const remove = (id: string) => setQuery({ run: runs.filter((each) => each !== id) });
  return (
    <>
      <h2>Runs, results, and keys that differ</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Runs, results and keys that differ">
        <table>
          <thead>
            <tr>
              <th scope="col"><span class="hidden">what</span></th>
              {told.rows.map((row) => (
                <th key={row.id} scope="col">
                  <a href={url(["run", row.id])}><bdi>{clean(row.id, 80)}</bdi></a>{" "}
                  <button type="button" class="sort" aria-label={`leave out ${row.id}`} onClick={() => remove(row.id)}>×</button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            <tr><th scope="row">state</th>{told.rows.map((row) => <td key={row.id}><State row={row} /></td>)}</tr>
            <tr><th scope="row">progress</th>{told.rows.map((row) => <td key={row.id}>{number(row.steps)} {row.unit}</td>)}</tr>
            {told.results.map((result) => (
              <tr key={result.name}><th scope="row">{clean(result.name)}</th>{result.values.map((value, place) => <td key={runs[place]}>{value === null ? "not recorded" : number(value)}</td>)}</tr>
            ))}
            {told.config.length === 0 && <tr><th scope="row">config</th><td colSpan={told.rows.length}>the same</td></tr>}
            {told.config.map((row) => (
              <tr key={row.key}><th scope="row" class="code">{clean(row.key)}</th>{row.values.map((value, place) => <td key={runs[place]} class="code"><bdi>{value === null ? "–" : clean(typeof value === "string" ? value : JSON.stringify(value), 300)}</bdi></td>)}</tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
