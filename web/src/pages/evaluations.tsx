// What evaluations measured, each with its 95 % interval.
import { useMemo } from "preact/hooks";
import { apiUrl, useJson } from "../api/client";
import { LineChart } from "../charts/line_chart";
import { Waiting } from "../parts/notice";

interface Point { step: number; value: number; low: number | null; high: number | null; count: number | null }
interface Measured { rows: { name: string; unit: string; meaning: string; points: Point[] }[] }

export function Evaluations({ run, version }: { run: string; version: number }) {
  const told = useJson<Measured>(apiUrl(["runs", run, "evaluations"]), Math.floor(version / 5));
  const charts = useMemo(
    () =>
      (told.value?.rows ?? []).map((row) => ({
        ...row,
        curves: [
          {
            label: row.points.some((point) => point.low !== null) ? `${row.name} (95 %)` : row.name,
            x: row.points.map((point) => point.step),
            mean: row.points.map((point) => point.value),
            ...(row.points.some((point) => point.low !== null) ? { low: row.points.map((point) => point.low), high: row.points.map((point) => point.high) } : {}),
            hasPoints: true,
          },
        ],
      })),
    [told.value],
  );
  return (
    <section aria-label="Evaluations">
      <h2>Evaluations</h2>
      <Waiting problem={told.problem} isLoading={told.isLoading} has={told.value !== null} />
      {told.value && charts.length === 0 && <p class="quiet">Nothing has been measured yet.</p>}
      <div class="charts">
        {charts.map((chart) => <LineChart key={chart.name} title={chart.name} unit={chart.unit} meaning={chart.meaning} xLabel="steps" curves={chart.curves} height={180} />)}
      </div>
    </section>
  );
}
