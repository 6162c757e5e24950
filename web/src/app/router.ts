// The address is the state: each view is a path and a query that restore it.
import { computed, signal } from "@preact/signals";

const address = signal(read());

function read(): URL {
  return new URL(window.location.href);
}

/** The path in its pieces, decoded: `/run/a%2Fb/league` is `["run", "a/b", "league"]`. */
export const pieces = computed(() =>
  address.value.pathname
    .split("/")
    .filter((piece) => piece !== "")
    .map((piece) => {
      try {
        return decodeURIComponent(piece);
      } catch {
        return piece;
      }
    }),
);

export const query = computed(() => address.value.searchParams);

export type Params = Record<string, string | number | readonly string[] | null | undefined>;

/** An address: pieces are encoded, parameters without a value are left out. */
export function url(path: readonly string[], params: Params = {}): string {
  return `/${path.map(encodeURIComponent).join("/")}${search(params)}`;
}

function search(params: Params): string {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value === null || value === undefined || value === "") continue;
    if (typeof value === "object") value.forEach((each) => out.append(name, each));
    else out.set(name, String(value));
  }
  const text = out.toString();
  return text ? `?${text}` : "";
}

/** Go to an address of this page. */
export function navigate(to: string, { replace = false } = {}): void {
  if (replace) window.history.replaceState(null, "", to);
  else window.history.pushState(null, "", to);
  address.value = read();
}

/** Change some parameters of this view; it replaces the entry of the history, as typing in a field should. */
export function setQuery(params: Params, { replace = true } = {}): void {
  const now: Params = {};
  for (const name of new Set(query.value.keys())) {
    const all = query.value.getAll(name);
    now[name] = all.length > 1 ? all : all[0];
  }
  navigate(address.value.pathname + search({ ...now, ...params }), { replace });
}

window.addEventListener("popstate", () => {
  address.value = read();
});

/** Links are ordinary links; a plain click on one of ours stays in the page. */
document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (!link || link.target || link.hasAttribute("download") || link.origin !== window.location.origin) return;
  if (link.pathname.startsWith("/api/") || link.getAttribute("href")?.startsWith("#")) return;
  event.preventDefault();
  navigate(link.href);
  window.scrollTo(0, 0);
  document.getElementById("content")?.focus({ preventScroll: true });
});
