// Commands over the run's control socket; each shows its reply. Stop asks first.
import { useRef, useState } from "preact/hooks";
import { apiUrl, postJson, session } from "../api/client";
import { useNews } from "../api/news";
import type { RunPageProps } from "../app/pages";
import { clean, clock } from "../parts/format";
import { Notice } from "../parts/notice";
import { Connected } from "./run";

interface Reply { command: string; is_done: boolean; message: string; result: Record<string, unknown> }
interface Said { at: number; command: string; isDone: boolean; text: string }

const SIMPLE = [
  ["pause", "Pause", "stop after the current update, keep everything"],
  ["resume", "Resume", "go on after a pause"],
  ["checkpoint", "Checkpoint", "save the state now"],
  ["train_now", "Train now", "do not wait for more new data"],
] as const;

export function Commands({ run }: RunPageProps) {
  const news = useNews(run);
  const [said, setSaid] = useState<readonly Said[]>([]);
  const [waiting, setWaiting] = useState("");
  const [policy, setPolicy] = useState("");
  const [key, setKey] = useState("train.steps");
  const [value, setValue] = useState("");
  const asks = useRef<HTMLDialogElement>(null);
  if (!session.value?.may_control) {
    return <Notice>{session.value?.has_control ? "Another browser has the right to give commands, or this one was not opened with the address that ludus web printed." : "This page only reads. To give commands, start it with: ludus web --control"}</Notice>;
  }
  const give = async (command: string, body: object = {}) => {
    setWaiting(command);
    let line: Said;
    try {
      const reply = await postJson<Reply>(apiUrl(["runs", run, "commands", command]), body);
      line = { at: Date.now(), command, isDone: reply.is_done, text: reply.is_done ? inWords(reply.result) : reply.message };
    } catch (error) {
      line = { at: Date.now(), command, isDone: false, text: (error as Error).message };
    }
    setWaiting("");
    setSaid((last) => [line, ...last].slice(0, 50));
  };
  return (
    <>
      <Connected news={news} />
      {news.status && <p>Now: {news.status.stage.toLowerCase()}{news.status.activity ? `, ${clean(news.status.activity)}` : ""}</p>}
      <div class="controls">
        {SIMPLE.map(([command, title, help]) => <button key={command} type="button" title={help} disabled={waiting !== ""} onClick={() => give(command)}>{title}</button>)}
        <button type="button" class="danger" disabled={waiting !== ""} onClick={() => asks.current?.showModal()}>Stop…</button>
      </div>
      <form class="controls" onSubmit={(event) => { event.preventDefault(); void give("export", policy ? { policy } : {}); }}>
        <label>Version <input value={policy} placeholder="newest" onInput={(event) => setPolicy(event.currentTarget.value)} /></label>
        <button type="submit" disabled={waiting !== ""}>Export</button>
      </form>
      <form class="controls" onSubmit={(event) => { event.preventDefault(); void give("set", { values: { [key]: parsed(value) } }); }}>
        <label>Key <input value={key} onInput={(event) => setKey(event.currentTarget.value)} /></label>
        <label>Value <input value={value} onInput={(event) => setValue(event.currentTarget.value)} /></label>
        <button type="submit" disabled={waiting !== "" || !key}>Set</button>
      </form>
      <dialog ref={asks} aria-labelledby="ask-stop">
        <p id="ask-stop">Stop the run? It is saved first, and the same command resumes it.</p>
        <form method="dialog" class="controls">
          <button type="submit" class="danger" onClick={() => void give("stop")}>Stop the run</button>
          <button type="submit">Leave it going</button>
        </form>
      </dialog>
      <h2>Replies</h2>
      <ul class="plain" aria-live="polite">
        {waiting && <li class="quiet">{waiting}: waiting for the run…</li>}
        {said.map((line) => (
          <li key={line.at} class={line.isDone ? "" : "notice error"}>
            <span class="quiet">{clock(line.at / 1000)}</span> <b>{line.command}</b> {line.isDone ? "✓" : "✗ refused:"} <bdi>{clean(line.text)}</bdi>
          </li>
        ))}
      </ul>
    </>
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function inWords(result: Record<string, unknown>): string {
  const parts = Object.entries(result).slice(0, 8).map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`);
  return parts.join(", ") || "done";
}
