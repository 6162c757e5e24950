// Curves with their bands. The one place that knows uPlot; a table says the same as the picture.
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { isDark } from "../app/theme";
import { clean, duration, number, short } from "../parts/format";

export interface Curve {
  label: string;
  x: readonly number[];
  mean: readonly (number | null)[];
  low?: readonly (number | null)[];
  high?: readonly (number | null)[];
  /** Draw each point: where they are few, and measured. */
  hasPoints?: boolean;
  /** Its place among all curves of the page, where it is to look the same in each chart. */
  place?: number;
}

export interface LineChartProps {
  title: string;
  unit?: string;
  meaning?: string;
  xLabel: string;
  curves: readonly Curve[];
  /** The window that is shown, when it is not all of it. */
  onZoom?: (from: number | null, to: number | null) => void;
  isZoomed?: boolean;
  /** A logarithmic scale, where everything is above zero. */
  isLog?: boolean;
  height?: number;
}

const MOST_TABLE_ROWS = 200;
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

export function LineChart({ title, unit = "", meaning = "", xLabel, curves, onZoom, isZoomed, isLog = false, height = 236 }: LineChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const zoom = useRef(onZoom);
  zoom.current = onZoom;
  const [read, setRead] = useState<{ x: number; values: (number | null | undefined)[] } | null>(null);
  const hasTime = xLabel === "time";
  const shape = JSON.stringify([curves.map((curve) => [curve.label, Boolean(curve.low), curve.hasPoints, curve.place]), xLabel, height, isLog]);
  const dark = isDark.value;

  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 0.5 }, ticks: { stroke: colour("--line"), width: 0.5 }, font: "12px system-ui" };
    const series: uPlot.Series[] = [{ label: xLabel }];
    const bands: uPlot.Band[] = [];
    curves.forEach((curve, own) => {
      const place = curve.place ?? own;
      const stroke = colour(`--curve-${(place % 8) + 1}`);
      const dash = place >= 8 ? { dash: [6, 4] } : {};
      if (curve.low) {
        bands.push({ series: [series.length + 1, series.length], fill: `${stroke}33` });
        series.push({ stroke: "transparent", points: { show: false }, spanGaps: true });
        series.push({ stroke: "transparent", points: { show: false }, spanGaps: true });
      }
      series.push({ label: clean(curve.label, 80), stroke, width: 1.6, spanGaps: true, points: { show: Boolean(curve.hasPoints) || curve.x.length < 3, size: 6, stroke, fill: stroke }, ...dash });
    });
    const made = new uPlot(
      {
        width: Math.max(element.clientWidth, 120),
        height,
        series,
        bands,
        legend: { show: false },
        scales: { x: { time: false }, ...(isLog ? { y: { distr: 3 as const } } : {}) },
        axes: [
          { ...axis, size: 34, ...(xLabel === "generation" ? { incrs: WHOLE } : {}), label: xLabel, labelSize: 16, labelGap: 0, labelFont: axis.font, values: (_, ticks) => ticks.map((tick) => (hasTime ? duration(tick) : short(tick))) },
          { ...axis, size: 58, values: (_, ticks) => ticks.map((tick: number | null) => (tick === null ? "" : short(tick))) },
        ],
        cursor: { drag: { x: Boolean(zoom.current), y: false, setScale: false }, points: { size: 6 } },
        hooks: {
          setCursor: [
            (now) => {
              const at = now.cursor.idx;
              if (at === null || at === undefined) return setRead(null);
              const x = now.data[0][at];
              if (x !== undefined) setRead({ x, values: meanPlaces(curves).map((place) => now.data[place]?.[at]) });
            },
          ],
          setSelect: [
            (now) => {
              if (now.select.width < 4) return;
              zoom.current?.(now.posToVal(now.select.left, "x"), now.posToVal(now.select.left + now.select.width, "x"));
              now.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            },
          ],
        },
      },
      aligned(curves),
      element,
    );
    plot.current = made;
    const resize = new ResizeObserver(() => made.setSize({ width: Math.max(element.clientWidth, 120), height }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, dark]);

  useEffect(() => {
    plot.current?.setData(aligned(curves));
  }, [curves]);

  return (
    <figure class="chart">
      <figcaption>
        <strong><bdi>{clean(title, 200)}</bdi></strong> {unit && <span class="quiet">{unit}</span>}
        {meaning && <span class="quiet meaning"> {meaning.replaceAll("`", "")}</span>}
      </figcaption>
      <div ref={host} class="plot" aria-hidden="true" />
      <ul class="legend">
        {curves.map((curve, place) => (
          <li key={curve.label}>
            <span class={`key key-${((curve.place ?? place) % 8) + 1}`} aria-hidden="true" />
            <bdi>{clean(curve.label, 120)}</bdi>
            {read && <span class="quiet"> {number(read.values[place])}</span>}
          </li>
        ))}
        {read && <li class="quiet">at {hasTime ? duration(read.x) : `${number(read.x)} ${xLabel}`}</li>}
        {isZoomed && onZoom && (
          <li><button type="button" onClick={() => onZoom(null, null)}>Whole run</button></li>
        )}
      </ul>
      <ChartTable title={title} xLabel={xLabel} curves={curves} />
    </figure>
  );
}

function ChartTable({ title, xLabel, curves }: { title: string; xLabel: string; curves: readonly Curve[] }) {
  const [isOpen, setOpen] = useState(false);
  const rows = isOpen ? curves.flatMap((curve) => curve.x.map((x, at) => ({ label: curve.label, x, at, curve }))) : [];
  const every = Math.max(1, Math.ceil(rows.length / MOST_TABLE_ROWS));
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Table</summary>
      {isOpen && (
        <div class="scroll short" tabIndex={0} role="region" aria-label={`${title} as a table`}>
          <table>
            <thead>
              <tr>
                <th scope="col">curve</th>
                <th scope="col" class="number">{xLabel}</th>
                <th scope="col" class="number">value</th>
                <th scope="col" class="number">from</th>
                <th scope="col" class="number">to</th>
              </tr>
            </thead>
            <tbody>
              {rows.filter((_, place) => place % every === 0 || place === rows.length - 1).map(({ label, x, at, curve }) => (
                <tr key={`${label} ${x}`}>
                  <td><bdi>{clean(label, 120)}</bdi></td>
                  <td class="number">{number(x)}</td>
                  <td class="number">{number(curve.mean[at])}</td>
                  <td class="number">{number(curve.low?.[at])}</td>
                  <td class="number">{number(curve.high?.[at])}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}

/** Where the middle of each curve is among the columns. */
function meanPlaces(curves: readonly Curve[]): number[] {
  let next = 1;
  return curves.map((curve) => {
    next += curve.low ? 3 : 1;
    return next - 1;
  });
}

/** All curves over the union of their places: x, then low, high and mean of each. */
function aligned(curves: readonly Curve[]): uPlot.AlignedData {
  const tables = curves.map((curve) => {
    const columns: (number | null)[][] = curve.low && curve.high ? [[...curve.low], [...curve.high], [...curve.mean]] : [[...curve.mean]];
    return [[...curve.x], ...columns] as uPlot.AlignedData;
  });
  if (tables.length === 0) return [[]];
  return tables.length === 1 && tables[0] ? tables[0] : uPlot.join(tables);
}
