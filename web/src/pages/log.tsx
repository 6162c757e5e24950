// What happened: the newest lines as they come, and the logs of the run's workers. The filter has the terminal's words.
import { useEffect, useRef } from "preact/hooks";
import { apiUrl, useJson, useTicks } from "../api/client";
import type { Line } from "../api/news";
import { useNews } from "../api/news";
import type { RunPageProps } from "../app/pages";
import { query, setQuery } from "../app/router";
import { clean, clock, number } from "../parts/format";
import { Waiting } from "../parts/notice";
import { Connected } from "./run";

interface Logs { attempts: number[]; attempt: number; workers: string[]; worker: string; lines: string[]; is_cut: boolean }

const SIGNS: Record<string, string> = { log: " ", event: "·", match: "=", warning: "!", error: "✗" };

export function Log({ run }: RunPageProps) {
  const news = useNews(run);
  const filter = query.value.get("filter") ?? "";
  const worker = query.value.get("worker") ?? "";
  const attempt = query.value.get("attempt") ?? "";
  const logs = useJson<Logs>(apiUrl(["runs", run, "log"], { worker, attempt, filter }), useTicks(5000));
  const lines = news.lines.filter((line) => matches(line, filter));
  return (
    <>
      <Connected news={news} />
      <form class="controls" role="search" onSubmit={(event) => event.preventDefault()}>
        <label>
          Filter <input type="search" value={filter} placeholder="words; -word: without" onInput={(event) => setQuery({ filter: event.currentTarget.value })} />
        </label>
        <span class="quiet">{number(lines.length)} of {number(news.lines.length)} lines{news.missed ? `; ${number(news.missed)} older ones are not kept` : ""}</span>
      </form>
      <h2>Events and messages</h2>
      <Lines label="Events and messages" lines={lines.map((line) => ({ kind: line.kind, text: `${clock(line.at)} ${SIGNS[line.kind] ?? " "} ${line.text}` }))} />
      <h2>Logs of the workers</h2>
      <Waiting problem={logs.problem} isLoading={logs.isLoading} has={logs.value !== null} />
      {logs.value && logs.value.workers.length === 0 && <p class="quiet">No worker has written a log.</p>}
      {logs.value && logs.value.workers.length > 0 && (
        <>
          <div class="controls">
            <label>
              Start{" "}
              <select value={String(logs.value.attempt)} onChange={(event) => setQuery({ attempt: event.currentTarget.value })}>
                {logs.value.attempts.map((each) => <option key={each} value={String(each)}>{each}</option>)}
              </select>
            </label>
            <label>
              Worker{" "}
              <select value={logs.value.worker} onChange={(event) => setQuery({ worker: event.currentTarget.value })}>
                {logs.value.workers.map((each) => <option key={each} value={each}>{clean(each, 80)}</option>)}
              </select>
            </label>
            {logs.value.is_cut && <span class="quiet">its end</span>}
          </div>
          <Lines label="Log of the worker" lines={logs.value.lines.map((text) => ({ kind: "log", text }))} />
        </>
      )}
    </>
  );
}

function matches(line: Line, filter: string): boolean {
  const text = `${line.kind} ${line.text}`.toLowerCase();
  return filter.toLowerCase().split(/\s+/).filter((word) => word && word !== "-").every((word) => (word.startsWith("-") ? !text.includes(word.slice(1)) : text.includes(word)));
}

/** Lines that follow the newest one until somebody scrolls up. */
function Lines({ label, lines }: { label: string; lines: readonly { kind: string; text: string }[] }) {
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  useEffect(() => {
    if (box.current && follows.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines.length]);
  if (lines.length === 0) return <p class="quiet">No lines.</p>;
  return (
    <div
      ref={box}
      class="log"
      tabIndex={0}
      role="region"
      aria-label={label}
      onScroll={(event) => {
        const at = event.currentTarget;
        follows.current = at.scrollTop + at.clientHeight >= at.scrollHeight - 8;
      }}
    >
      {lines.map((line, place) => <div key={place} class={`entry ${line.kind}`}><bdi>{clean(line.text, 4000)}</bdi></div>)}
    </div>
  );
}
