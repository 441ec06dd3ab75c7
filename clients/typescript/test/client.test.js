// Tests the client with a real server, which test/clients starts; environment variables contain its address.
import assert from "node:assert/strict";
import { test } from "node:test";

import { HoldfastError, createClient, deletion } from "@holdfast/ext-storage";

const { BASE_URL: baseUrl = "", LIMITED_URL = "", INSTALL: install = "", TOKEN: token = "", LIMITED_TOKEN = "" } = process.env;
assert.ok(baseUrl && LIMITED_URL && install && token && LIMITED_TOKEN, "test/clients sets the environment of these tests");

/** @param {Partial<import("@holdfast/ext-storage").ClientOptions>} [options] */
const client = (options) => createClient({ baseUrl, install, token, ...options });

/**
 * Returns a check of a thrown error.
 * @param {Partial<HoldfastError>} want
 * @returns {(e: unknown) => true}
 */
const error = (want) => (e) => {
  assert.ok(e instanceof HoldfastError, String(e));
  assert.deepEqual(Object.fromEntries(Object.keys(want).map((k) => [k, e[/** @type {keyof HoldfastError} */ (k)]])), want);
  assert.ok(e.requestId);
  return true;
};

/**
 * Returns a fetch that sends every request and loses the first response.
 * @param {() => Response} answer returns its replacement, or throws
 */
function losing(answer) {
  let sent = 0;
  return {
    sent: () => sent,
    /** @param {Request} request */
    fetch: async (request) => {
      const real = await fetch(request);
      return sent++ === 0 ? (await real.arrayBuffer(), answer()) : real;
    },
  };
}

const gone = () => {
  throw new TypeError("the connection is gone");
};
const unavailable = () => Response.json({ error: { code: "UNAVAILABLE", message: "Later.", requestId: "r" } }, { status: 503, headers: { "Retry-After": "0" } });

test("a record is created, changed and deleted", async () => {
  const ns = client().namespace("life");
  assert.equal(await ns.get("theme"), undefined);
  const made = await ns.put("theme", { dark: true }, { metadata: { by: "test" }, ttlSeconds: 3600, ifRevision: 0 });
  assert.equal(made.revision, 1);
  assert.ok(made.ttlExpiresAt && Date.parse(made.ttlExpiresAt) > Date.parse(made.createdAt));

  const got = await ns.get("theme");
  assert.deepEqual(got, { ...made, value: { dark: true }, metadata: { by: "test" } });

  const patched = await ns.patch("theme", { dark: null, accent: "blue" }, { ifMatch: made.etag });
  assert.equal(patched.revision, 2);
  assert.deepEqual((await ns.get("theme"))?.value, { accent: "blue" });

  await ns.delete("theme", { ifRevision: 2 });
  await ns.delete("theme");
  assert.equal(await ns.get("theme"), undefined);
});

test("keys are taken as they are", async () => {
  const ns = client().namespace("keys");
  const keys = ["a b", "%2e", "ключ", "?x=1#y", "a+b", "...", '"'];
  for (const key of keys) {
    await ns.put(key, key);
    assert.equal((await ns.get(key))?.value, key);
  }
  // A URL parser removes both, so the path would name another resource.
  for (const key of [".", ".."]) {
    await assert.rejects(ns.put(key, 1), RangeError);
    await assert.rejects(ns.get(key), RangeError);
    await client().batch([{ op: "put", namespace: "keys", key, value: key }]);
  }
  const listed = [];
  for await (const item of ns.list({ values: true })) {
    assert.equal(item.value, item.key);
    listed.push(item.key);
  }
  assert.deepEqual(listed.sort(), [...keys, ".", ".."].sort());
  await assert.rejects(ns.put("a/b", 1), error({ code: "VALIDATION_FAILED", status: 400, pointer: "/key" }));
});

test("errors have the fields of the response", async () => {
  const ns = client().namespace("errors");
  const { revision, etag } = await ns.put("k", 1);
  await assert.rejects(ns.put("k", 2, { ifRevision: 0 }), error({ code: "REVISION_MISMATCH", status: 409, currentRevision: revision }));
  await ns.put("k", 2);
  await assert.rejects(ns.delete("k", { ifMatch: etag }), error({ code: "REVISION_MISMATCH", status: 412, currentRevision: revision + 1 }));
  await assert.rejects(ns.patch("none", {}, { ifRevision: 7 }), error({ code: "REVISION_MISMATCH", status: 409, currentRevision: 0 }));
  await assert.rejects(ns.put("k", 1, { ttlSeconds: 1 }), error({ code: "VALIDATION_FAILED", pointer: "/ttlSeconds", retryAfter: undefined }));
  await assert.rejects(client().namespace("others").get("k"), error({ code: "NAMESPACE_DENIED", status: 403 }));
  await assert.rejects(client({ token: "no.token.atall" }).usage(), error({ code: "UNAUTHENTICATED", status: 401 }));
  await assert.rejects(
    ns.bulkPut([
      { key: "a", value: 1 },
      { key: "k", value: 1, ifRevision: 9 },
    ]),
    error({ code: "BULK_PARTIAL_FAILURE", status: 409, index: 1, cause: "REVISION_MISMATCH", currentRevision: 2 }),
  );
  assert.equal(await ns.get("a"), undefined);
  await assert.rejects(ns.increment("n", "", 2, { max: 1, create: true }), error({ code: "BOUND_REACHED", status: 409, pointer: "/max", retryable: false, failures: [] }));
  await assert.rejects(ns.put("k", "x".repeat(70_000)), error({ code: "LIMIT_EXCEEDED", status: 413, pointer: "/value", limit: 65_536, size: 70_002, retryable: false }));
  const { version } = await ns.schemas.register({ maximum: 5 });
  await ns.schemas.setStatus(version, "active");
  const reason = "must be at most 5";
  await assert.rejects(
    ns.put("k", 6),
    error({
      code: "VALIDATION_FAILED",
      retryable: false,
      pointer: "/value",
      failures: [{ pointer: "/value", location: "", keyword: "maximum", bound: 5, message: reason }],
      limit: undefined,
    }),
  );
  await ns.schemas.setStatus(version, "deprecated");
  // This 404 is not from the API, so it does not mean that the record is missing.
  await assert.rejects(client({ baseUrl: baseUrl + "/elsewhere" }).namespace("errors").get("k"), (e) => e instanceof HoldfastError && e.code === "UNKNOWN" && e.status === 404);
});

test("invalid options are refused at once", () => {
  for (const wrong of ["", "127.0.0.1:8000", "localhost:8000", "/", "https://", "https://h.example?a=b", "https://h.example/#a"]) {
    assert.throws(() => client({ baseUrl: wrong }), { name: "TypeError", message: /expected http:\/\/ or https:\/\// }, wrong);
  }
  for (const wrong of ["/ext/v1", "/ext/v1/installs/" + install]) {
    assert.throws(() => client({ baseUrl: baseUrl + wrong }), { name: "TypeError", message: /remove \/ext\/v1/ }, wrong);
  }
  assert.throws(() => client({ install: "" }), { name: "TypeError", message: /^install: / });
  assert.throws(() => client({ token: "" }), { name: "TypeError", message: /^token: / });
  // Plain JavaScript allows missing options.
  for (const name of ["baseUrl", "install", "token"]) {
    assert.throws(() => client({ [name]: undefined }), { name: "TypeError", message: new RegExp("^" + name) }, name);
  }
});

test("lists come in pages", async () => {
  const ns = client().namespace("lists");
  const put = await ns.bulkPut(["a1", "a2", "a3", "a4", "a5", "b1"].map((key, value) => ({ key, value })));
  assert.ok(put.every((r) => r.created));
  /** @param {import("@holdfast/ext-storage").ListOptions} o */
  const all = async (o) => {
    const found = [];
    for await (const { key, value } of ns.list(o)) found.push([key, value]);
    return found;
  };
  assert.deepEqual(await all({ limit: 2 }), [["a1"], ["a2"], ["a3"], ["a4"], ["a5"], ["b1"]].map(([k]) => [k, undefined]));
  assert.deepEqual(await all({ limit: 2, prefix: "a", reverse: true, values: true }), [["a5", 4], ["a4", 3], ["a3", 2], ["a2", 1], ["a1", 0]]);
  const first = await ns.page({ limit: 4 });
  const second = await ns.page({ limit: 4, ...(first.nextCursor && { cursor: first.nextCursor }) });
  assert.deepEqual([...first.items, ...second.items].map((i) => i.key), put.map((i) => i.key));
  assert.equal(second.nextCursor, null);
});

test("a batch is all or nothing", async () => {
  const c = client();
  const ns = c.namespace("batches");
  await ns.put("old", 1);
  const results = await c.batch([
    { op: "check", namespace: "batches", key: "new", ifRevision: 0 },
    { op: "put", namespace: "batches", key: "new", value: "x" },
    { op: "increment", namespace: "batches", key: "count", pointer: "/n", by: 2, create: true },
    { op: "delete", namespace: "batches", key: "old" },
  ]);
  assert.deepEqual(results.map((r) => r.op), ["check", "put", "increment", "delete"]);
  assert.ok(results[2]?.op === "increment" && results[2].sum === 2);
  assert.ok(results[3]?.op === "delete" && results[3].existed);
  await assert.rejects(
    c.batch([
      { op: "delete", namespace: "batches", key: "new" },
      { op: "check", namespace: "batches", key: "count", ifRevision: 5 },
    ]),
    error({ code: "BULK_PARTIAL_FAILURE", index: 1, cause: "REVISION_MISMATCH", currentRevision: 1 }),
  );
  await assert.rejects(c.batch([{ op: "put", namespace: "batches", key: "new", value: 1, ttlSeconds: 1 }]), error({ status: 400, pointer: "/ops/0/ttlSeconds" }));
  assert.equal((await ns.get("new"))?.value, "x");
});

test("changes are followed and continued", async () => {
  const c = client();
  const ns = c.namespace("feed");
  await ns.put("a", 1);
  await ns.delete("a");
  const seen = [];
  let since = 0;
  for await (const page of c.changes({ wait: 0, limit: 1 })) {
    seen.push(...page.changes.filter((x) => x.namespace === "feed").map((x) => x.op + " " + x.key));
    since = page.nextSince;
  }
  assert.deepEqual(seen, ["put a", "delete a"]);

  // The server holds the request until the put. If the request is late, the change already exists.
  /** @type {() => void} */
  let asked = () => {};
  /** @type {Promise<void>} */
  const asking = new Promise((resolve) => (asked = resolve));
  const follower = client({
    fetch: (request) => {
      const answer = fetch(request);
      asked();
      return answer;
    },
  });
  const next = (async () => {
    for await (const page of follower.changes({ since, wait: 10 })) {
      const mine = page.changes.filter((x) => x.namespace === "feed");
      if (mine.length > 0) return mine.map((x) => x.op + " " + x.key);
    }
    return [];
  })();
  await asking;
  await ns.put("b", 1);
  assert.deepEqual(await next, ["put b"]);

  const last = await c.lastChange();
  assert.ok(last > since);
  const stop = new AbortController();
  const waiting = client({
    fetch: (request) => {
      const answer = fetch(request);
      stop.abort();
      return answer;
    },
  }).changes({ since: last, wait: 60, signal: stop.signal });
  assert.deepEqual(await waiting.next(), { done: true, value: undefined }); // ends without an error
  await assert.rejects(c.changes({ since: last + 1000 }).next(), error({ code: "CHANGES_EXPIRED", status: 410 }));
});

test("usage and namespaces", async () => {
  const c = client();
  await c.namespace("usage").put("k", "1234");
  const usage = await c.usage();
  assert.ok(usage.bytes.used > 0 && usage.bytes.limit > usage.bytes.used);
  const mine = (await c.namespaces()).filter((n) => n.namespace === "usage");
  assert.deepEqual(mine.map((n) => n.keys), [1]);
});

test("schemas", async () => {
  const ns = client().namespace("schemas");
  await Promise.all([1, 2, 3].map((m) => ns.put(`old${m}`, { m })));
  const draft = await ns.schemas.register({ type: "object", required: ["n"] });
  assert.deepEqual([draft.version, draft.status], [1, "draft"]);
  const report = await ns.schemas.check({ version: 1 }); // one record per request
  assert.equal(report.activeVersion, null);
  assert.deepEqual([report.records.checked, report.records.failed, report.records.nextCursor], [3, 3, null]);
  assert.deepEqual(report.records.firstFailures.map((f) => f.key), ["old1", "old2", "old3"]);
  assert.equal((await ns.schemas.setStatus(1, "active")).status, "active");
  await assert.rejects(ns.put("k", { m: 1 }), error({ code: "VALIDATION_FAILED", pointer: "/value" }));
  await ns.put("k", { n: 1 }, { schemaVersion: 1 });
  assert.deepEqual((await ns.schemas.get(1)).schema, { type: "object", required: ["n"] });
  await ns.schemas.register({ type: "object" });
  const versions = [];
  for await (const { version } of ns.schemas.list({ limit: 1 })) versions.push(version);
  assert.deepEqual(versions, [2, 1]);
  await assert.rejects(ns.schemas.get(3), error({ code: "NOT_FOUND" }));
});

test("large numbers", async () => {
  const big = 2n ** 63n + 1n;
  // Members named big are integers of any size.
  const exact = client({
    parse: (text) => JSON.parse(text.replace(/("big":)(\d+)/g, '$1"$2"'), (name, value) => (name === "big" ? BigInt(value) : value)),
    stringify: (value) => JSON.stringify(value, (_, v) => (typeof v === "bigint" ? `${v}` : v)).replace(/("big":)"(\d+)"/g, "$1$2"),
  });
  await exact.namespace("numbers").put("k", { big });
  assert.deepEqual((await exact.namespace("numbers").get("k"))?.value, { big });
  assert.deepEqual((await client().namespace("numbers").get("k"))?.value, { big: 2 ** 63 }); // the 1 is lost
});

/** A number as text, as in lossless-json. */
class Digits {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }
  valueOf() {
    return Number(this.text);
  }
  toJSON() {
    return "#" + this.text;
  }
}

test("number objects of parse are accepted in requests", async () => {
  const c = client({
    parse: (text) =>
      JSON.parse(text.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (token) => (token.startsWith('"') ? token : `"#${token}"`)), (_, v) =>
        typeof v === "string" && v.startsWith("#") ? new Digits(v.slice(1)) : v,
      ),
    stringify: (value) => JSON.stringify(value).replace(/"#([^"]*)"/g, "$1"),
  });
  const ns = c.namespace("digits");
  const since = await c.lastChange();
  const made = await ns.put("k", { n: 1 });
  const patched = await ns.patch("k", { n: 2 }, { ifRevision: made.revision });
  const again = await ns.put("k", { n: 3 }, { ifRevision: patched.revision });
  await ns.delete("k", { ifRevision: again.revision });
  const draft = await ns.schemas.register({ type: "object" });
  assert.equal((await ns.schemas.setStatus(draft.version, "active")).status, "active");
  assert.equal((await ns.schemas.get(draft.version)).status, "active");

  const ops = [];
  for await (const page of c.changes({ since, wait: 0, limit: 2 })) {
    ops.push(...page.changes.filter((change) => change.namespace === "digits").map((change) => change.op));
    assert.ok(ops.length <= 4, "it does not end");
    for await (const last of c.changes({ since: page.nextSince, wait: 0 })) {
      assert.ok(Number(last.nextSince) > Number(page.nextSince));
    }
  }
  assert.deepEqual(ops, ["put", "put", "put", "delete"]);
});

test("no update is lost", async (t) => {
  let requests = 0;
  const writers = [1, 2].map(() =>
    client({
      fetch: async (request) => {
        const answer = await fetch(request);
        return ++requests % 7 === 0 ? (await answer.arrayBuffer(), gone()) : answer;
      },
    }).namespace("update"),
  );
  const each = 20;
  await Promise.all(
    writers.map(async (ns) => {
      for (let i = 0; i < each; i++) await ns.update("n", (n = 0) => Number(n) + 1, i === 0 ? { metadata: { by: "test" } } : {});
    }),
  );
  const ns = client().namespace("update");
  const record = await ns.get("n");
  assert.deepEqual([record?.value, record?.revision, record?.metadata], [2 * each, 2 * each, { by: "test" }]);

  assert.equal((await ns.update("n", () => undefined))?.etag, record?.etag);
  assert.equal((await ns.get("n"))?.etag, record?.etag);
  const written = await ns.update("n", async () => null, { ttlSeconds: 60 });
  assert.ok(written?.ttlExpiresAt && written.revision === 2 * each + 1);
  assert.equal((await ns.get("n"))?.value, null);
  for (const _ of [1, 2]) assert.equal(await ns.update("n", () => deletion), undefined); // the second finds no record
  assert.equal(await ns.get("n"), undefined);
  assert.equal(await ns.update("n", (value, stored) => void assert.deepEqual([value, stored], [undefined, undefined])), undefined);
  await assert.rejects(ns.update("n", () => Promise.reject(new Error("own"))), { message: "own" });
  await assert.rejects(ns.update("n", () => 1, { ttlSeconds: 1 }), error({ status: 400 }));

  // Another client always comes first.
  let rounds = 0;
  const stop = new AbortController();
  const busy = async () => {
    await ns.put("busy", ++rounds);
    if (rounds === 5) stop.abort(new Error("enough"));
    return "mine";
  };
  await assert.rejects(ns.update("busy", busy, { signal: stop.signal }), { message: "enough" });
  assert.equal(rounds, 5);
  t.mock.method(Math, "random", () => 0); // no pauses
  await assert.rejects(ns.update("busy", busy), error({ cause: "REVISION_MISMATCH", status: 412 }));
  assert.equal(rounds, 105);
});

test("idempotent requests are retried", async () => {
  for (const answer of [gone, unavailable]) {
    const f = losing(answer);
    const ns = client({ fetch: f.fetch }).namespace("again");
    assert.equal((await ns.increment("count-" + answer.name, "/n", 1, { create: true })).sum, 1);
    assert.equal(f.sent(), 2);
    assert.deepEqual((await ns.get("count-" + answer.name))?.value, { n: 1 });

    const b = losing(answer);
    const key = "batch-" + answer.name;
    const [made] = await client({ fetch: b.fetch }).batch([{ op: "put", namespace: "again", key, value: 1, ifRevision: 0 }]);
    assert.ok(b.sent() === 2 && made?.op === "put" && made.created);

    const p = losing(answer);
    await client({ fetch: p.fetch }).namespace("again").put("put", 1);
    assert.equal(p.sent(), 2);
  }
});

test("other requests are not retried", async () => {
  const f = losing(unavailable);
  await assert.rejects(client({ fetch: f.fetch }).namespace("once").put("k", 1, { ifRevision: 0 }), error({ code: "UNAVAILABLE", retryAfter: 0 }));
  assert.equal(f.sent(), 1);
  const g = losing(gone);
  await assert.rejects(client({ fetch: g.fetch }).namespace("once").schemas.register(true), TypeError);
  assert.equal(g.sent(), 1);
});

test("a request over a rate is retried after Retry-After", async () => {
  let tokens = 0;
  let turnedAway = 0;
  const limited = client({
    baseUrl: LIMITED_URL,
    token: async () => (tokens++, LIMITED_TOKEN),
    fetch: async (request) => {
      const answer = await fetch(request);
      if (answer.status === 429) turnedAway++;
      return answer;
    },
  }).namespace("again");
  // The server allows a burst of one write, and then a write every two seconds.
  await Promise.all(["a", "b"].map((key) => limited.put(key, 1, { ifRevision: 0 })));
  assert.ok(turnedAway > 0);
  assert.equal(tokens, 2 + turnedAway);
  const impatient = client({ baseUrl: LIMITED_URL, token: LIMITED_TOKEN, retries: 0 }).namespace("again");
  await assert.rejects(
    Promise.all(["c", "d"].map((key) => impatient.put(key, 1))),
    (e) => error({ code: "RATE_LIMITED", status: 429 })(e) && e instanceof HoldfastError && e.retryAfter !== undefined && e.retryAfter > 0,
  );
});

test("changes backs off if the server does not hold requests", async () => {
  let sent = 0;
  const stop = new AbortController();
  const busy = client({ fetch: async () => (sent++, Response.json({ changes: [], nextSince: 7 })) });
  setTimeout(() => stop.abort(), 300);
  assert.deepEqual(await busy.changes({ since: 7, wait: 30, signal: stop.signal }).next(), { done: true, value: undefined });
  assert.ok(sent >= 1 && sent <= 3, `${sent} requests`); // after the first a pause of 125 ms at least, then of 250
});
