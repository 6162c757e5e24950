// News of one run: what is known first, then what changes, and how old it is.
import { useEffect, useState } from "preact/hooks";
import { apiUrl, useTicks } from "./client";

export interface QueueFill { name: string; length: number; capacity: number | null }
export interface Room { name: string; unit: string; rate: number; total: number; dropped: number; load: number | null; load_total: number | null; queues: QueueFill[] }
export interface Status {
  stage: string; activity: string; run: string; part: string; update: number; steps: number; total_steps: number; share_done: number;
  unit: string; episodes: number; version: number; steps_per_s: number; eta_s: number | null; uptime_s: number; error: string;
  silent_workers: string[];
  workers: { name: string; node: string; load: number | null; restarts: number; is_silent: boolean }[];
  nodes: { name: string; workers: number; cpus: number; free_cpus: number; gpus: number; free_gpus: number; load: number | null }[];
  schedule: { cycles: number; new_data: number; data_to_wait: number; updates: number; updates_to_do: number; training_s: number; previous_training_s: number; cycle_s: number; previous_cycle_s: number };
  rooms: Room[];
  loader: { problem: string; stages: { name: string; load: number; length: number; capacity: number; counts: Record<string, number> }[]; refused: Record<string, number> } | null;
  sinks: { name: string; queued: number; dropped: number; error: string }[];
  commands: string[];
}
export interface Line { at: number; kind: string; text: string }
export interface Connection { state: string; words: string; quiet_s: number; skipped: Record<string, number>; unreadable: number; too_long: number }
export interface News {
  status: Status | null;
  failure: string;
  /** Grows when there are new metrics. */
  metrics: number;
  lines: readonly Line[];
  missed: number;
  connection: Connection | null;
  /** Whether the stream from ludus web is there, and when it last said anything (ms of the epoch). */
  isOpen: boolean;
  heardAt: number;
}

interface Told { status?: Status; failure?: string; metrics?: number; log?: { lines: Line[]; missed: number }; connection?: Connection }

const MOST_LINES = 1000;
const NOTHING: News = { status: null, failure: "", metrics: 0, lines: [], missed: 0, connection: null, isOpen: false, heardAt: 0 };

export function useNews(run: string): News {
  const [news, setNews] = useState<News>(NOTHING);
  useEffect(() => {
    let source: EventSource | null = null;
    let again = 0;
    let wait = 1000;
    const take = (event: MessageEvent<string>) => {
      const told = JSON.parse(event.data) as Told;
      setNews((last) => ({
        status: told.status ?? last.status,
        failure: told.failure ?? last.failure,
        metrics: told.metrics ?? last.metrics,
        lines: told.log ? [...last.lines, ...told.log.lines].slice(-MOST_LINES) : last.lines,
        missed: last.missed + (told.log?.missed ?? 0),
        connection: told.connection ?? last.connection,
        isOpen: true,
        heardAt: Date.now(),
      }));
    };
    const open = () => {
      source = new EventSource(apiUrl(["news"], { run }));
      // A stream that was opened anew tells everything again.
      source.onopen = () => {
        wait = 1000;
        setNews((last) => ({ ...last, lines: [], missed: 0, isOpen: true, heardAt: Date.now() }));
      };
      source.addEventListener("news", take);
      source.addEventListener("beat", take);
      source.onerror = () => {
        source?.close();
        setNews((last) => ({ ...last, isOpen: false }));
        again = window.setTimeout(open, wait);
        wait = Math.min(wait * 2, 15000);
      };
    };
    open();
    return () => {
      source?.close();
      window.clearTimeout(again);
    };
  }, [run]);
  return news;
}

const LIVE_MS = 15000;

/** A `version` for `useJson`: grows now and then while the run is live, and once more when it has ended. */
export function useLive(run: string): string {
  const state = useNews(run).connection?.state ?? "";
  const isLive = state === "live";
  return `${isLive} ${useTicks(isLive ? LIVE_MS : 0)}`;
}
