// The frame of every view: where we are, tabs of a run, the theme, and whether the server answers.
import { useEffect, useState } from "preact/hooks";
import { Problem, enter, isReached, session } from "../api/client";
import { clean } from "../parts/format";
import { Notice } from "../parts/notice";
import { PAGES, RUN_PAGES } from "./pages";
import { pieces, url } from "./router";
import type { Theme } from "./theme";
import { theme } from "./theme";

export function Shell() {
  const [problem, setProblem] = useState("");
  useEffect(() => {
    enter().catch((error: unknown) => setProblem((error as Error).message));
  }, []);
  if (session.value?.needs_token) return <Login />;
  const [first = "", run = "", name = "", ...rest] = pieces.value;
  return (
    <>
      <a class="skip" href="#content">Skip to the content</a>
      <header class="top">
        <a class="brand" href="/">ludus</a>
        <nav aria-label="Pages">
          {Object.entries(PAGES).map(([key, page]) => (
            <a key={key} href={`/${key}`} aria-current={first === key ? "page" : undefined}>{page.title}</a>
          ))}
        </nav>
        <span class="grow quiet folder" title="The folder whose runs are shown">
          <bdi>{clean(session.value?.folder ?? "", 200)}</bdi>
        </span>
        <ThemeSwitch />
      </header>
      <main id="content" tabIndex={-1}>
        {!isReached.value && <Notice kind="warning">ludus web does not answer. What is shown is what it said last.</Notice>}
        {problem && <Notice kind="error">{problem}</Notice>}
        {session.value && (first === "run" && run ? <OfRun run={run} name={name} rest={rest} /> : <OfAll name={first} />)}
      </main>
    </>
  );
}

function OfAll({ name }: { name: string }) {
  const page = PAGES[name];
  useTitle(page?.title ?? "not found");
  if (!page) return <Notice kind="error">There is no such page.</Notice>;
  const Component = page.component;
  return <Component />;
}

function OfRun({ run, name, rest }: { run: string; name: string; rest: string[] }) {
  const page = RUN_PAGES.find((each) => each.name === name);
  useTitle(`${page?.title ?? "not found"} – ${run}`);
  const Component = page?.component;
  return (
    <>
      <h1 class="run-name"><bdi>{clean(run, 300)}</bdi></h1>
      <nav class="tabs" aria-label="Pages of the run">
        {RUN_PAGES.map((each) => (
          <a key={each.name} href={url(each.name ? ["run", run, each.name] : ["run", run])} aria-current={each === page ? "page" : undefined}>
            {each.title}
          </a>
        ))}
      </nav>
      {Component ? <Component key={run} run={run} rest={rest} /> : <Notice kind="error">There is no such page.</Notice>}
    </>
  );
}

function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${clean(title, 200)} – ludus`;
  }, [title]);
}

function ThemeSwitch() {
  return (
    <label class="theme">
      <span class="hidden">Theme</span>
      <select value={theme.value} onChange={(event) => (theme.value = event.currentTarget.value as Theme)}>
        <option value="system">System</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}

function Login() {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    enter(token).catch((error: unknown) => setProblem(error instanceof Problem ? error.message : String(error)));
  };
  return (
    <main id="content" class="login">
      <h1>ludus</h1>
      <form onSubmit={submit}>
        <label>
          The server's token <input type="password" autocomplete="off" value={token} onInput={(event) => setToken(event.currentTarget.value)} />
        </label>
        <button type="submit">Enter</button>
      </form>
      {problem && <Notice kind="error">{problem}</Notice>}
    </main>
  );
}
