// Light or dark: as the system says, or as the switch says; kept in this browser.
import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
const KEY = "ludus-theme";

function stored(): Theme {
  try {
    const value = window.localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}

const media = window.matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(media.matches);
media.addEventListener("change", () => {
  systemIsDark.value = media.matches;
});

export const theme = signal<Theme>(stored());
/** Charts draw on a canvas and must know. */
export const isDark = signal(false);

effect(() => {
  isDark.value = theme.value === "dark" || (theme.value === "system" && systemIsDark.value);
  document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
  try {
    if (theme.value === "system") window.localStorage.removeItem(KEY);
    else window.localStorage.setItem(KEY, theme.value);
  } catch {
    // A browser that keeps nothing shows the system's theme the next time.
  }
});

export const reducesMotion = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
