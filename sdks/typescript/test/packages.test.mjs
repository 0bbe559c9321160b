/** What is in the packages: types that every resolution finds, nothing that is missing, nothing that is large. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const run = promisify(execFile);
const root = path.resolve(fileURLToPath(import.meta.url), "../..");
const PACKAGES = ["client", "react", "vip", "functions"];
/** Bytes, compressed, of what a page loads that talks ASP and nothing else. */
const CLIENT_BYTES = 21 * 1024;

for (const name of PACKAGES) {
  const folder = path.join(root, "packages", name);
  test(`${name}: publint and attw find nothing`, { timeout: 60_000 }, async () => {
    const bin = (tool) => path.join(root, "node_modules/.bin", tool);
    await run(bin("publint"), ["--strict"], { cwd: folder });
    await run(bin("attw"), ["--pack", ".", "--profile", "esm-only", "--no-emoji"], { cwd: folder });
  });

  test(`${name}: licence, changelog, types and source maps are inside`, { timeout: 60_000 }, async () => {
    const { stdout } = await run("npm", ["pack", "--dry-run", "--json"], { cwd: folder });
    // Newer versions of npm answer with a map, older ones with a list.
    const parsed = JSON.parse(stdout);
    const [{ files }] = Array.isArray(parsed) ? parsed : Object.values(parsed);
    const paths = files.map((file) => file.path);
    for (const needed of ["LICENSE", "CHANGELOG.md", "README.md", "package.json"]) assert.ok(paths.includes(needed), needed);
    const scripts = paths.filter((file) => file.endsWith(".js"));
    assert.ok(scripts.length > 0);
    for (const script of scripts) {
      assert.ok(paths.includes(`${script}.map`), `${script}.map`);
      assert.ok(paths.includes(script.replace(/js$/, "d.ts")) || script === "dist/worklet.js", `types of ${script}`);
    }
    assert.deepEqual(paths.filter((file) => file.startsWith("src/") || file.startsWith("test/")), []);
    const manifest = JSON.parse(await readFile(path.join(folder, "package.json"), "utf8"));
    assert.deepEqual([manifest.type, manifest.sideEffects, manifest.license, manifest.private], ["module", false, "Apache-2.0", undefined]);
  });
}

async function bundle(contents, platform = "neutral") {
  const built = await build({ stdin: { contents, resolveDir: root }, bundle: true, minify: true, format: "esm", platform, write: false, mainFields: ["module", "main"], logLevel: "silent" });
  return built.outputFiles[0].contents;
}

test("the client is small, and needs neither a DOM nor Node", async () => {
  const bytes = gzipSync(await bundle('export { createClient } from "@switchboard/client";'), { level: 9 }).length;
  assert.ok(bytes <= CLIENT_BYTES, `${bytes} bytes, ${CLIENT_BYTES} may be`);
  const text = Buffer.from(await bundle('export * from "@switchboard/client";')).toString();
  assert.doesNotMatch(text, /\bdocument\.|\brequire\(|node:/);
});
