// Checks that no method sends an unpaired surrogate, NaN or Infinity: JSON.stringify and URLs would change them.
import assert from "node:assert/strict";
import { test } from "node:test";

import { createClient } from "@holdfast/ext-storage";

let sent = 0;
const client = createClient({
  baseUrl: "http://server.example",
  install: "i",
  token: "t",
  fetch: async () => {
    sent++;
    return Response.json({});
  },
});
const ns = client.namespace("n");
const exact = createClient({ baseUrl: "http://server.example", install: "i", token: "t", stringify: (v) => JSON.stringify(v), fetch: async () => (sent++, Response.json({})) });

/** It has no records. Its reads do not count as sent. */
const empty = createClient({
  baseUrl: "http://server.example",
  install: "i",
  token: "t",
  fetch: async (request) => {
    if (request.method !== "GET") sent++;
    return Response.json({ error: { code: "NOT_FOUND", message: "no such record" } }, { status: 404 });
  },
}).namespace("n");

const texts = ["\ud800", "a\udc00b", "\udc00\ud800", "\u{1f600}\ud83d"];
const numbers = [NaN, Infinity, -Infinity];

/** Values in which one is hidden. @param {unknown} bad */
const values = (bad) => [bad, [1, bad], { a: { "b/c": [bad] } }, { toJSON: () => bad }, Object(bad)];

/** @typedef {(bad: any) => unknown} Call */

/**
 * What each method sends: texts, numbers, and values, into which any text or number can be put.
 * @type {Record<string, { text?: Call[], number?: Call[], value?: Call[] }>}
 */
const table = {
  "Client.batch": {
    text: [(s) => client.batch([{ op: "delete", namespace: s, key: "k" }]), (s) => client.batch([{ op: "check", namespace: "n", key: s, ifRevision: 1 }]), (s) => client.batch([], { idempotencyKey: s })],
    number: [(n) => client.batch([{ op: "increment", namespace: "n", key: "k", pointer: "", by: n }]), (n) => client.batch([{ op: "put", namespace: "n", key: "k", value: 1, ttlSeconds: n }])],
    value: [(v) => client.batch([{ op: "put", namespace: "n", key: "k", value: v }]), (v) => exact.batch([{ op: "put", namespace: "n", key: "k", value: v }])],
  },
  "Client.changes": { number: [(n) => client.changes({ since: n }).next(), (n) => client.changes({ limit: n }).next(), (n) => client.changes({ wait: n }).next()] },
  "Namespace.get": { text: [(s) => ns.get(s), (s) => client.namespace(s).get("k")] },
  "Namespace.put": {
    text: [(s) => ns.put(s, 1), (s) => client.namespace(s).put("k", 1), (s) => ns.put("k", 1, { ifMatch: s })],
    number: [(n) => ns.put("k", 1, { ttlSeconds: n }), (n) => ns.put("k", 1, { ifRevision: n }), (n) => ns.put("k", 1, { schemaVersion: n })],
    value: [(v) => ns.put("k", v), (v) => ns.put("k", 1, { metadata: { v } }), (v) => exact.namespace("n").put("k", v)],
  },
  "Namespace.update": { text: [(s) => ns.update(s, () => 1)], number: [(n) => empty.update("k", () => 1, { ttlSeconds: n })], value: [(v) => empty.update("k", () => v), (v) => empty.update("k", () => 1, { metadata: { v } })] },
  "Namespace.delete": { text: [(s) => ns.delete(s), (s) => ns.delete("k", { ifMatch: s })], number: [(n) => ns.delete("k", { ifRevision: n })] },
  "Namespace.patch": { text: [(s) => ns.patch(s, {}), (s) => ns.patch("k", {}, { ifMatch: s })], number: [(n) => ns.patch("k", {}, { ifRevision: n })], value: [(v) => ns.patch("k", v)] },
  "Namespace.increment": {
    text: [(s) => ns.increment(s, "", 1), (s) => ns.increment("k", s, 1), (s) => ns.increment("k", "", 1, { idempotencyKey: s }), (s) => ns.increment("k", "", 1, { ifMatch: s })],
    number: [(n) => ns.increment("k", "", n), (n) => ns.increment("k", "", 1, { min: n }), (n) => ns.increment("k", "", 1, { max: n }), (n) => ns.increment("k", "", 1, { ifRevision: n })],
  },
  "Namespace.bulkPut": { text: [(s) => ns.bulkPut([{ key: s, value: 1 }])], number: [(n) => ns.bulkPut([{ key: "k", value: 1, ttlSeconds: n }])], value: [(v) => ns.bulkPut([{ key: "k", value: 1 }, { key: "l", value: v }])] },
  "Namespace.list": { text: [(s) => ns.list({ prefix: s }).next(), (s) => ns.list({ cursor: s }).next()], number: [(n) => ns.list({ limit: n }).next()] },
  "Namespace.page": { text: [(s) => ns.page({ prefix: s })], number: [(n) => ns.page({ limit: n })] },
  "NamespaceSchemas.list": { text: [(s) => ns.schemas.list({ cursor: s }).next()], number: [(n) => ns.schemas.list({ limit: n }).next()] },
  "NamespaceSchemas.page": { text: [(s) => ns.schemas.page({ cursor: s })], number: [(n) => ns.schemas.page({ limit: n })] },
  "NamespaceSchemas.get": { number: [(n) => ns.schemas.get(n)] },
  "NamespaceSchemas.register": { value: [(v) => ns.schemas.register({ const: v })] },
  "NamespaceSchemas.setStatus": { number: [(n) => ns.schemas.setStatus(n, "active")] },
  "NamespaceSchemas.check": { text: [(s) => ns.schemas.check({ cursor: s })], number: [(n) => ns.schemas.check({ version: n })], value: [(v) => ns.schemas.check({ schema: { const: v } })] },
  "raw.GET": { text: [(s) => client.raw.GET("/ext/v1/installs/{install}/usage", { params: { path: { install: s } } })] },
  "raw.PUT": { value: [(v) => client.raw.PUT("/ext/v1/installs/{install}/namespaces/{namespace}/records/{key}", { params: { path: { install: "i", namespace: "n", key: "k" } }, body: { value: v } })] },
  "raw.POST": {
    text: [(s) => client.raw.POST("/ext/v1/installs/{install}/import", { params: { path: { install: "i" } }, headers: { "Content-Type": "application/x-ndjson" }, body: /** @type {never} */ (s) })],
    value: [(v) => client.raw.POST("/ext/v1/installs/{install}/namespaces/{namespace}/records", { params: { path: { install: "i", namespace: "n" } }, body: { items: [{ key: "k", value: v }] } })],
  },
  "raw.PATCH": { value: [(v) => client.raw.PATCH("/ext/v1/installs/{install}/namespaces/{namespace}/records/{key}", { params: { path: { install: "i", namespace: "n", key: "k" } }, body: v })] },
  "raw.DELETE": { text: [(s) => client.raw.DELETE("/ext/v1/installs/{install}/namespaces/{namespace}/records/{key}", { params: { path: { install: "i", namespace: "n", key: s } } })] },
  "raw.HEAD": { text: [(s) => client.raw.HEAD("/ext/v1/installs/{install}/namespaces/{namespace}/records/{key}", { params: { path: { install: "i", namespace: "n", key: s } } })] },
};

/** They send only the install, which is the same for all methods, or nothing. */
const plain = ["Client.namespace", "Client.lastChange", "Client.usage", "Client.namespaces"];

test("every method is in the table", () => {
  const methods = [client, ns, ns.schemas].flatMap((object) => {
    const { constructor, ...members } = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(object));
    return Object.keys(members).filter((name) => members[name]?.value).map((name) => `${object.constructor.name}.${name}`);
  });
  const raw = Object.keys(client.raw).map((name) => `raw.${name}`);
  const own = ["Namespace.at"]; // private
  assert.deepEqual([...methods, ...raw].filter((name) => !own.includes(name)).sort(), [...Object.keys(table), ...plain].sort());
});

test("the install", async () => {
  const other = createClient({ baseUrl: "http://server.example", install: "\ud800", token: "t", fetch: () => assert.fail("sent") });
  for (const call of [other.usage(), other.namespaces(), other.lastChange()]) {
    await assert.rejects(call, { name: "RangeError", message: /^install: unpaired surrogate/ });
  }
});

for (const [name, { text = [], number = [], value = [] }] of Object.entries(table)) {
  test(name, async () => {
    const calls = [
      ...text.flatMap((call) => texts.map((bad) => () => call(bad))),
      ...number.flatMap((call) => numbers.map((bad) => () => call(bad))),
      ...value.flatMap((call) => [...texts, ...numbers].flatMap((bad) => values(bad)).map((v) => () => call(v))),
      ...value.flatMap((call) => texts.map((bad) => () => call({ a: [{ [bad]: 1 }] }))),
    ];
    assert.ok(calls.length > 0);
    for (const call of calls) {
      sent = 0;
      await assert.rejects(async () => call(), (e) => e instanceof RangeError && /unpaired surrogate|finite number/.test(e.message), String(call));
      assert.equal(sent, 0);
    }
  });
}

test("errors name the place", async () => {
  await assert.rejects(ns.put("k", { a: [1, { "b/c": NaN }] }), { message: "/value/a/1/b~1c: NaN: expected a finite number, because JSON has no NaN" });
  await assert.rejects(ns.put("k", "\ud800"), { message: "/value: unpaired surrogate: expected well-formed Unicode" });
  await assert.rejects(ns.put("\ud800", 1), { message: "key: unpaired surrogate: expected well-formed Unicode" });
  await assert.rejects(ns.bulkPut([{ key: "k", value: { "\udc00": 1 } }]), { message: "/items/0/value: unpaired surrogate in the name of a member: expected well-formed Unicode" });
});

test("other values that are not JSON are not retried", async () => {
  /** @type {{ self?: unknown }} */
  const circle = {};
  circle.self = circle;
  for (const bad of [1n, circle]) {
    await assert.rejects(ns.put("k", bad), (e) => e instanceof RangeError && e.message.startsWith("body: not JSON: "));
  }
  await assert.rejects(client.batch([], { idempotencyKey: "ключ" }), { name: "RangeError", message: "Idempotency-Key: expected visible ASCII characters" });
  assert.equal(sent, 0);
});

test("well-formed texts and other numbers are sent", async () => {
  sent = 0;
  const twice = { pair: "\u{1f600}" };
  await ns.put("\u{1f600}", { twice, again: twice, zero: -0, most: Number.MAX_VALUE, none: null });
  assert.equal(sent, 1);
});
