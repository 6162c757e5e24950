// The table of pages. To add one: its component, and a row here; a page of a run gets a tab by its title.
import type { ComponentType } from "preact";
import { Episodes } from "../pages/episodes";
import { LeaguePage } from "../pages/league";
import { PlayPage } from "../pages/play";
import { RefusedPage } from "../pages/refused";
import { Runs } from "../pages/runs";
import { TasksPage } from "../pages/tasks";
import "../parts/views.css";

export interface RunPageProps {
  /** The run's id: its path below the folder. */
  run: string;
  /** What the address has after the page's name. */
  rest: readonly string[];
}

export interface RunPage {
  name: string;
  title: string;
  component: ComponentType<RunPageProps>;
}

/** `/run/<id>/<name>/…`; the first is that of `/run/<id>`. */
export const RUN_PAGES: readonly RunPage[] = [
  { name: "league", title: "League", component: LeaguePage },
  { name: "episodes", title: "Episodes", component: Episodes },
  { name: "tasks", title: "Tasks", component: TasksPage },
  { name: "refused", title: "Refused", component: RefusedPage },
  { name: "play", title: "Play", component: PlayPage },
];

/** `/<name>`; the empty name is the first page. */
export const PAGES: Readonly<Record<string, { title: string; component: ComponentType }>> = {
  "": { title: "Runs", component: Runs },
};
