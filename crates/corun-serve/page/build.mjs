// Bundles src/ into dist/, which is committed: building corun needs no Node. `--check` builds into memory and says
// whether dist/ is what the sources give.
import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";

const here = new URL(".", import.meta.url).pathname;
// What the bundle contains of others goes with its licence.
const licence = await readFile(`${here}node_modules/preact/LICENSE`, "utf8");
const bundled = await build({
  absWorkingDir: here,
  entryPoints: { page: "src/main.tsx" },
  outdir: "dist",
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome110", "firefox115", "safari16"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "inline",
  banner: { js: `/*! Contains Preact.\n${licence.trim()}\n*/` },
  charset: "utf8",
  write: false,
  logLevel: "warning",
});
const files = new Map(bundled.outputFiles.map((file) => [file.path.slice(here.length), file.text]));
for (const name of ["index.html", "icon.svg"]) {
  files.set(`dist/${name}`, await readFile(`${here}src/${name}`, "utf8"));
}
let stale = 0;
for (const [path, text] of files) {
  if (process.argv.includes("--check")) {
    const kept = await readFile(here + path, "utf8").catch(() => "");
    if (kept !== text) {
      console.error(`page/${path} is not what page/src gives: npm ci && npm run build in page/`);
      stale = 1;
    }
  } else {
    await writeFile(here + path, text);
  }
}
process.exit(stale);
