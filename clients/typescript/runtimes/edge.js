// Runs runtime.js in two edge runtimes: workerd (in miniflare) and edge-runtime. Both load a single file.
import process from "node:process";

import { EdgeRuntime } from "edge-runtime";
import { build } from "esbuild";
import { Miniflare } from "miniflare";

const env = Object.fromEntries(["SHOP_URL", "USER_SECRET", "SIGNED_URL", "BASE_URL", "INSTALL", "TOKEN"].map((name) => [name, process.env[name] ?? ""]));

/** @param {"esm" | "iife"} format @param {string} contents */
async function bundle(format, contents) {
  const { outputFiles: [file] } = await build({ stdin: { contents, resolveDir: "test" }, bundle: true, write: false, format, target: "es2022" });
  return file?.text ?? "";
}

const answer = `run(env).then(() => new Response("passed"), (e) => new Response(String(e.stack ?? e), { status: 500 }))`;

async function inWorkerd() {
  const script = await bundle("esm", `import { run } from "./runtime.js"; export default { fetch: (request, env) => ${answer} };`);
  const worker = new Miniflare({ modules: true, script, compatibilityDate: "2024-09-23", bindings: env });
  try {
    return await (await worker.dispatchFetch("http://localhost/")).text();
  } finally {
    await worker.dispose();
  }
}

async function inEdgeRuntime() {
  const initialCode = await bundle("iife", `import { run } from "./runtime.js"; const env = ${JSON.stringify(env)}; addEventListener("fetch", (event) => event.respondWith(${answer}));`);
  return await (await new EdgeRuntime({ initialCode }).dispatchFetch("http://localhost/")).text();
}

for (const [name, test] of Object.entries({ inWorkerd, inEdgeRuntime })) {
  const text = await test();
  if (text !== "passed") throw new Error(`${name}: ${text}`);
  console.log(name, text);
}
