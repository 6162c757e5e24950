// What there is to say in place of, or above, a view.
import type { ComponentChildren } from "preact";

export function Notice({ kind = "info", children }: { kind?: "info" | "warning" | "error"; children: ComponentChildren }) {
  return (
    <div class={`notice ${kind}`} role={kind === "error" ? "alert" : "status"}>
      {children}
    </div>
  );
}

/** The state of a request: what went wrong, or that it is under way; nothing when the value is there. */
export function Waiting({ problem, isLoading, has }: { problem: string; isLoading: boolean; has: boolean }) {
  if (problem) return <Notice kind="error">{problem}</Notice>;
  if (isLoading && !has) return <p class="quiet" role="status">Reading…</p>;
  return null;
}
