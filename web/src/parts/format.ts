// Numbers, times and shares in the words of the terminal's tables.

export const NOT_RECORDED = "not recorded";

export function number(value: number | null | undefined, digits = 4): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en");
  if (Math.abs(value) < 1e-4) return value.toExponential(Math.max(0, Math.min(digits, 3) - 1));
  return Number(value.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits });
}

export function short(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  for (const [scale, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]] as const) {
    if (size >= scale) return `${Number((value / (scale === 1e4 ? 1e3 : scale)).toPrecision(3))}${letter}`;
  }
  if (size > 0 && size < 1e-4) return value.toExponential(1);
  return String(Number(value.toPrecision(4)));
}

export function percent(share: number | null | undefined, digits = 1): string {
  return share === null || share === undefined || !Number.isFinite(share) ? "–" : `${(share * 100).toFixed(digits)} %`;
}

export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const whole = Math.max(0, Math.floor(seconds));
  const two = (part: number) => String(part).padStart(2, "0");
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (days) return `${days}d ${two(hours)}:${two(minutes)}`;
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

export function date(seconds: number | null | undefined): string {
  if (!seconds) return "–";
  const at = new Date(seconds * 1000);
  const two = (part: number) => String(part).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

export function clock(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}

const MOST_SHOWN = 100_000;

/** Foreign text as it was written, line by line; what cannot be seen or turns text around is made visible. */
export function lines(text: string): string {
  const seen = text.slice(0, MOST_SHOWN).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, "\ufffd");
  return text.length > MOST_SHOWN ? `${seen}…\n(${(text.length - MOST_SHOWN).toLocaleString("en")} more characters)` : seen;
}

/** Foreign text in one line, without characters that change the direction of what follows or cannot be seen. */
export function clean(text: string, most = 2000): string {
  return text.slice(0, most).replace(/[\u0000-\u001f\u007f-\u009f]/g, " ").replace(/[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, "\ufffd");
}
