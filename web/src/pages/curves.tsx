// Curves of one run: any metric, with its meaning and unit, over steps, time, tokens or episodes.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { apiUrl, useJson } from "../api/client";
import { useNews } from "../api/news";
import type { RunPageProps } from "../app/pages";
import { query, setQuery } from "../app/router";
import { LineChart } from "../charts/line_chart";
import { clean, number } from "../parts/format";
import { Notice, Waiting } from "../parts/notice";
import { Connected } from "./run";

interface Metric { name: string; unit: string; meaning: string; step: number; last: number | null }
interface Listed { rows: Metric[]; unreadable_lines: number }
interface Series { x: number[]; low: number[]; mean: number[]; high: number[]; points: number; is_exact: boolean }
interface Told { x: string; series: Record<string, Series>; missing: string[]; problem: string }

const FIRST = ["train/loss", "train/reward", "explore/reward", "train/approx_kl", "train/entropy", "train/explained_variance", "train/learning_rate", "loop/steps_per_s"];
export const AXES = [["step", "steps"], ["time", "time"], ["tokens", "tokens"], ["episodes", "episodes"]] as const;
const MOST_CHARTS = 24;

export function Curves({ run }: RunPageProps) {
  const news = useNews(run);
  const version = Math.floor(news.metrics / 4);
  const listed = useJson<Listed>(apiUrl(["runs", run, "metrics"]), version);
  const metrics = listed.value?.rows ?? [];
  const chosen = query.value.getAll("m");
  const words = query.value.get("filter") ?? "";
  const names = new Set(metrics.map((metric) => metric.name));
  const found = words ? metrics.filter((metric) => words.toLowerCase().split(/\s+/).every((word) => metric.name.toLowerCase().includes(word))) : [];
  const shown = chosen.length ? chosen : words ? found.map((metric) => metric.name) : FIRST.filter((name) => names.has(name));
  return (
    <>
      <Connected news={news} />
      <AxisControls filter={words} />
      <Waiting problem={listed.problem} isLoading={listed.isLoading} has={listed.value !== null} />
      {listed.value && listed.value.unreadable_lines > 0 && <Notice kind="warning">{number(listed.value.unreadable_lines)} lines of metrics.jsonl cannot be read; the others are shown.</Notice>}
      {listed.value && metrics.length === 0 && <p>This run has told no metrics yet.</p>}
      {shown.length > MOST_CHARTS && <p class="quiet">The first {MOST_CHARTS} of {shown.length} are shown; more words in the filter show others.</p>}
      <div class="charts">
        {shown.slice(0, MOST_CHARTS).map((name) => <MetricChart key={name} run={run} metric={metrics.find((each) => each.name === name) ?? { name, unit: "", meaning: "", step: 0, last: null }} version={version} isKnown={names.has(name) || !listed.value} />)}
      </div>
      {metrics.length > 0 && <AllMetrics metrics={metrics} chosen={chosen} />}
    </>
  );
}

function AxisControls({ filter }: { filter: string }) {
  const axis = query.value.get("x") ?? "step";
  return (
    <form class="controls" onSubmit={(event) => event.preventDefault()}>
      <label>
        Metrics <input type="search" value={filter} placeholder="words of a name" onInput={(event) => setQuery({ filter: event.currentTarget.value, m: null })} />
      </label>
      <label>
        Along{" "}
        <select value={axis} onChange={(event) => setQuery({ x: event.currentTarget.value, from: null, to: null })}>
          {AXES.map(([value, words]) => <option key={value} value={value}>{words}</option>)}
        </select>
      </label>
      <Bound name="from" /> <Bound name="to" />
      {(query.value.has("from") || query.value.has("to")) && <button type="button" onClick={() => setQuery({ from: null, to: null })}>Whole run</button>}
    </form>
  );
}

export function Bound({ name }: { name: "from" | "to" }) {
  const value = query.value.get(name) ?? "";
  return (
    <label>
      {name} <input class="bound" type="number" value={value} onChange={(event) => setQuery({ [name]: event.currentTarget.value })} />
    </label>
  );
}

function MetricChart({ run, metric, version, isKnown }: { run: string; metric: Metric; version: number; isKnown: boolean }) {
  const place = useRef<HTMLDivElement>(null);
  const isSeen = useSeen(place);
  const axis = query.value.get("x") ?? "step";
  const [from, to] = [query.value.get("from"), query.value.get("to")];
  const told = useJson<Told>(isSeen && isKnown ? apiUrl(["runs", run, "series"], { name: metric.name, x: axis, from, to, buckets: 500 }) : null, version);
  const series = told.value?.series[metric.name];
  const curves = useMemo(
    () => (series ? [{ label: metric.name, x: series.x, mean: series.mean, ...(series.is_exact ? {} : { low: series.low, high: series.high }) }] : []),
    [series],
  );
  return (
    <div ref={place} class="chart-place">
      {told.problem && <Notice kind="error">{told.problem}</Notice>}
      {!isKnown && <p><b>{clean(metric.name)}</b>: not recorded</p>}
      {told.value?.problem && <p><b>{clean(metric.name)}</b>: {told.value.problem}</p>}
      {curves.length > 0 && (
        <LineChart
          title={metric.name}
          unit={metric.unit || "unit not known"}
          meaning={metric.meaning}
          xLabel={AXES.find(([name]) => name === axis)?.[1] ?? axis}
          curves={curves}
          isZoomed={from !== null || to !== null}
          onZoom={(low, high) => setQuery({ from: low, to: high }, { replace: false })}
        />
      )}
      {series && !series.is_exact && <p class="quiet">{number(series.points)} points; the band is from the least to the greatest.</p>}
    </div>
  );
}

/** Whether a place has been on the screen: curves are asked for when they are looked at. */
function useSeen(place: { current: HTMLElement | null }): boolean {
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    if (!place.current || isSeen) return;
    const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && setSeen(true), { rootMargin: "300px" });
    observer.observe(place.current);
    return () => observer.disconnect();
  }, [isSeen]);
  return isSeen;
}

function AllMetrics({ metrics, chosen }: { metrics: readonly Metric[]; chosen: readonly string[] }) {
  return (
    <details>
      <summary>All {metrics.length} metrics</summary>
      <ul class="plain metrics">
        {metrics.map((metric) => (
          <li key={metric.name}>
            <label>
              <input
                type="checkbox"
                checked={chosen.includes(metric.name)}
                onChange={(event) => setQuery({ m: event.currentTarget.checked ? [...chosen, metric.name] : chosen.filter((each) => each !== metric.name), filter: null })}
              />{" "}
              <bdi class="code">{clean(metric.name, 200)}</bdi>
            </label>{" "}
            {number(metric.last)} <span class="quiet">{metric.unit} {metric.meaning.replaceAll("`", "") || "not in the table of metrics"}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}
