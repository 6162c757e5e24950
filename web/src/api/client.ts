// Everything the page knows comes through here: JSON of this server, with what went wrong in words.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Params } from "../app/router";
import { url } from "../app/router";

export class Problem extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

export interface Session {
  version: string;
  folder: string;
  only: string;
  needs_token: boolean;
  may_control: boolean;
  has_control: boolean;
  csrf: string;
}

export const session = signal<Session | null>(null);
/** Whether the server answered the last time it was asked. */
export const isReached = signal(true);

export function apiUrl(path: readonly string[], params: Params = {}): string {
  return url(["api", ...path], params);
}

async function ask<T>(address: string, init: RequestInit): Promise<T> {
  let response: Response;
  try {
    response = await fetch(address, { ...init, redirect: "error" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    isReached.value = false;
    throw new Problem("ludus web does not answer; is it still running?", 0);
  }
  isReached.value = true;
  let value: unknown;
  try {
    value = await response.json();
  } catch {
    throw new Problem(`the server's answer cannot be read (HTTP ${response.status})`, response.status);
  }
  if (!response.ok) {
    const told = (value as { error?: unknown } | null)?.error;
    throw new Problem(typeof told === "string" ? told : `HTTP ${response.status}`, response.status);
  }
  return value as T;
}

export function getJson<T>(address: string, signal?: AbortSignal): Promise<T> {
  return ask<T>(address, signal ? { signal } : {});
}

export function postJson<T>(address: string, body: unknown): Promise<T> {
  return ask<T>(address, {
    method: "POST",
    headers: { "content-type": "application/json", "x-ludus-csrf": session.value?.csrf ?? "" },
    body: JSON.stringify(body),
  });
}

/** Say who we are; a token behind the `#` is exchanged for a cookie and leaves the address. */
export async function enter(token = ""): Promise<void> {
  const fragment = new URLSearchParams(window.location.hash.slice(1)).get("token");
  if (fragment) window.history.replaceState(null, "", window.location.pathname + window.location.search);
  const given = token || fragment || "";
  const address = apiUrl(["session"]);
  try {
    session.value = await (given ? postJson<Session>(address, { token: given }) : getJson<Session>(address));
  } catch (error) {
    if (!given || token) throw error;
    session.value = await getJson<Session>(address); // the token was used before: this browser may be known
  }
}

export interface Fetched<T> {
  value: T | null;
  problem: string;
  status: number;
  isLoading: boolean;
  /** When the value came, in ms of the epoch. */
  at: number;
  reload: () => void;
}

/** The answer at an address, asked again when the address changes or `version` does; null asks nothing. */
export function useJson<T>(address: string | null, version: unknown = 0): Fetched<T> {
  const [state, setState] = useState({ value: null as T | null, problem: "", status: 200, isLoading: true, at: 0 });
  const [again, setAgain] = useState(0);
  const shown = useRef<string | null>(null);
  useEffect(() => {
    if (address === null) return;
    const abort = new AbortController();
    const isOther = shown.current !== address;
    setState((last) => ({ ...last, value: isOther ? null : last.value, isLoading: true }));
    shown.current = address;
    getJson<T>(address, abort.signal).then(
      (value) => setState({ value, problem: "", status: 200, isLoading: false, at: Date.now() }),
      (error: unknown) => {
        if (abort.signal.aborted) return;
        const status = error instanceof Problem ? error.status : 0;
        setState((last) => ({ ...last, problem: String((error as Error).message), status, isLoading: false }));
      },
    );
    return () => abort.abort();
  }, [address, again, version]);
  return { ...state, reload: () => setAgain((n) => n + 1) };
}

/** A number that grows every so many milliseconds while the page is visible: a `version` for `useJson`. */
export function useTicks(everyMs: number): number {
  const [ticks, setTicks] = useState(0);
  useEffect(() => {
    if (!everyMs) return;
    const timer = window.setInterval(() => document.hidden || setTicks((n) => n + 1), everyMs);
    return () => window.clearInterval(timer);
  }, [everyMs]);
  return ticks;
}
