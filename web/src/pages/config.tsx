// The resolved config of a run.
import { apiUrl, useJson } from "../api/client";
import type { RunPageProps } from "../app/pages";
import { query, setQuery } from "../app/router";
import { clean, lines } from "../parts/format";
import { Notice, Waiting } from "../parts/notice";

export function Config({ run }: RunPageProps) {
  const told = useJson<{ config: unknown; problems: string[] }>(apiUrl(["runs", run]));
  const filter = (query.value.get("filter") ?? "").toLowerCase();
  const rows = told.value ? flat(told.value.config, "").filter(([key, value]) => `${key} ${value}`.toLowerCase().includes(filter)) : [];
  return (
    <>
      <form class="controls" role="search" onSubmit={(event) => event.preventDefault()}>
        <label>
          Filter <input type="search" value={query.value.get("filter") ?? ""} onInput={(event) => setQuery({ filter: event.currentTarget.value })} />
        </label>
      </form>
      <Waiting problem={told.problem} isLoading={told.isLoading} has={told.value !== null} />
      {told.value && !told.value.config && <Notice kind="warning">{lines(told.value.problems.join("\n"))}</Notice>}
      <div class="scroll" tabIndex={0} role="region" aria-label="Config">
        <table>
          <thead><tr><th scope="col">key</th><th scope="col">value</th></tr></thead>
          <tbody>{rows.map(([key, value]) => <tr key={key}><th scope="row" class="code">{clean(key)}</th><td class="code"><bdi>{clean(value, 4000)}</bdi></td></tr>)}</tbody>
        </table>
      </div>
    </>
  );
}

function flat(value: unknown, key: string): [string, string][] {
  if (value !== null && typeof value === "object" && Object.keys(value).length > 0) {
    return Object.entries(value).flatMap(([name, below]) => flat(below, key ? `${key}.${name}` : name));
  }
  return key ? [[key, typeof value === "string" ? value : JSON.stringify(value)]] : [];
}
