// The table of pages. To add one: its component, and a row here; a page of a run gets a tab by its title.
import type { ComponentType } from "preact";
import { Commands } from "../pages/commands";
import { Compare } from "../pages/compare";
import { Config } from "../pages/config";
import { Curves } from "../pages/curves";
import { Log } from "../pages/log";
import { Run } from "../pages/run";
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
  { name: "", title: "Run", component: Run },
  { name: "curves", title: "Curves", component: Curves },
  { name: "league", title: "League", component: LeaguePage },
  { name: "episodes", title: "Episodes", component: Episodes },
  { name: "tasks", title: "Tasks", component: TasksPage },
  { name: "refused", title: "Refused", component: RefusedPage },
  { name: "play", title: "Play", component: PlayPage },
  { name: "log", title: "Log", component: Log },
  { name: "config", title: "Config", component: Config },
  { name: "commands", title: "Commands", component: Commands },
];

/** `/<name>`; the empty name is the first page. */
export const PAGES: Readonly<Record<string, { title: string; component: ComponentType }>> = {
  "": { title: "Runs", component: Runs },
  compare: { title: "Compare", component: Compare },
};
