// Builds the page into the Python package. Nothing of it names another host; nothing is inlined that the page's
// content policy forbids.
import { readFileSync, readdirSync, existsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "../src/ludus/web/static");
const BUNDLED = ["preact", "@preact/signals", "@preact/signals-core", "uplot"];

/** The licences of what is bundled, beside the page. */
function notices() {
  return {
    name: "notices",
    closeBundle() {
      const parts = BUNDLED.map((name) => {
        const folder = join(here, "node_modules", name);
        const card = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
        const file = existsSync(folder) && readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
        if (!file) throw new Error(`${name} has no licence file`);
        return `${name} ${card.version} (${card.license})\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
      });
      writeFileSync(join(out, "NOTICES.txt"), parts.join(`\n${"-".repeat(80)}\n\n`));
    },
  };
}

export default defineConfig({
  root: here,
  plugins: [notices()],
  build: {
    outDir: out,
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 300,
  },
});
