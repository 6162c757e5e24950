// A field whose text goes into the address a moment after it was typed.
import { useEffect, useState } from "preact/hooks";
import { query, setQuery } from "../app/router";

export function QueryField({ name, label, type = "text", placeholder = "" }: { name: string; label: string; type?: "text" | "number"; placeholder?: string }) {
  const value = query.value.get(name) ?? "";
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    const timer = window.setTimeout(() => text !== value && setQuery({ [name]: text, offset: null }), 250);
    return () => window.clearTimeout(timer);
  }, [text]);
  return (
    <label>
      {label} <input type="text" inputMode={type === "number" ? "decimal" : "text"} value={text} placeholder={placeholder} size={10} onInput={(event) => setText(event.currentTarget.value)} />
    </label>
  );
}

export function QueryChoice({ name, label, choices }: { name: string; label: string; choices: readonly (readonly [string, string])[] }) {
  return (
    <label>
      {label}{" "}
      <select value={query.value.get(name) ?? ""} onChange={(event) => setQuery({ [name]: event.currentTarget.value, offset: null })}>
        {choices.map(([value, words]) => <option key={value} value={value}>{words}</option>)}
      </select>
    </label>
  );
}

/** Which part of a list is shown, and the way to its neighbours. */
export function Pager({ offset, total, limit }: { offset: number; total: number; limit: number }) {
  const last = Math.min(offset + limit, total);
  return (
    <nav class="controls" aria-label="Parts of the list">
      <button type="button" disabled={offset === 0} onClick={() => setQuery({ offset: Math.max(0, offset - limit) || null })}>Newer</button>
      <span aria-live="polite">{total ? `${offset + 1}–${last} of ${total.toLocaleString("en")}` : "none"}</span>
      <button type="button" disabled={last >= total} onClick={() => setQuery({ offset: offset + limit })}>Older</button>
    </nav>
  );
}
