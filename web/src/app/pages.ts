// The table of pages. To add one: its component, and a row here; a page of a run gets a tab by its title.
import type { ComponentType } from "preact";
import { Runs } from "../pages/runs";

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
export const RUN_PAGES: readonly RunPage[] = [];

/** `/<name>`; the empty name is the first page. */
export const PAGES: Readonly<Record<string, { title: string; component: ComponentType }>> = {
  "": { title: "Runs", component: Runs },
};
