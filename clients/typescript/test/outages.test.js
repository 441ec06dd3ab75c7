// Plays the outages in outages.json to changes(), on a clock of the test. The Go client's tests play them, too.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { HoldfastError, createClient } from "@holdfast/ext-storage";

/**
 * A part of an outage: how requests fail, and its end. Without an end, it does not end.
 * @typedef {object} Phase
 * @property {boolean} [lost] requests get no connection
 * @property {boolean} [hangs] requests get no response
 * @property {boolean} [tokensLost] the token function gets no connection
 * @property {number} [status] of the response
 * @property {string} [code] in the response; without it, `body` is the response
 * @property {string} [body]
 * @property {string} [retryAfter] header of the response
 * @property {number} [seconds] it ends after this time
 * @property {number} [requests] it ends after these requests
 * @property {boolean} [token] it ends when another token arrives
 * @property {number} [sleeps] seconds for which the computer sleeps during the first request: no timer runs
 */
/**
 * @typedef {object} Outage
 * @property {string} name
 * @property {Phase[]} outage
 * @property {"same"} [tokens] the token function always returns the same token
 * @property {number} [least] seconds before the second request
 * @property {number} most number of failed requests, or of failed calls of the token function
 * @property {number} [late] seconds after the outage until the next change arrives, at most; a pause is at most twice as long as all before it, and 30 s
 * @property {string} [error] code of the error that the caller gets
 */

/** @type {Outage[]} */
const outages = JSON.parse(readFileSync(new URL("outages.json", import.meta.url), "utf8"));

/** The time, and the timers, which run as soon as nothing else does. */
class Clock {
  now = Date.UTC(2000, 0, 1);
  /** @type {Map<number, { at: number, call: () => void }>} */
  #timers = new Map();
  #last = 0;

  /** @param {import("node:test").TestContext} t */
  constructor(t) {
    const { now } = Date;
    const timers = { setTimeout, clearTimeout };
    t.after(() => {
      Date.now = now;
      Object.assign(globalThis, timers);
    });
    Date.now = () => this.now;
    Object.assign(globalThis, {
      setTimeout: (/** @type {() => void} */ call, /** @type {number} */ ms) => {
        this.#timers.set(++this.#last, { at: this.now + ms, call });
        return this.#last;
      },
      clearTimeout: (/** @type {number} */ id) => this.#timers.delete(id),
    });
  }

  /** Lets the computer sleep: the time passes, and the timers do not notice. @param {number} ms */
  sleep(ms) {
    this.now += ms;
    for (const timer of this.#timers.values()) timer.at += ms;
  }

  /** Runs the timers until a promise is settled. @template T @param {Promise<T>} work @returns {Promise<T>} */
  async run(work) {
    let settled = false;
    const end = () => void (settled = true);
    work.then(end, end);
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve));
      if (settled) return work;
      const next = [...this.#timers].sort(([, a], [, b]) => a.at - b.at)[0];
      if (!next) throw new Error("nothing is waited for");
      this.#timers.delete(next[0]);
      this.now = Math.max(this.now, next[1].at);
      next[1].call();
    }
  }
}

/** A server with change 1, then an outage, then change 2. */
class Server {
  /** Times of failures. @type {number[]} */
  failures = [];
  /** When the outage ended. */
  healed = 0;
  #phase = -1;
  #began = 0;
  #requests = 0;

  /** @param {Outage} outage @param {Clock} clock */
  constructor(outage, clock) {
    this.outage = outage;
    this.clock = clock;
  }

  /** Returns the phase, or undefined before and after the outage. @param {string} [token] of the request */
  #current(token) {
    for (;;) {
      const phase = this.outage.outage[this.#phase];
      if (!phase) return undefined;
      const end = phase.seconds === undefined ? Infinity : this.#began + phase.seconds * 1000;
      if (this.clock.now < end && this.#requests < (phase.requests ?? Infinity) && !(phase.token && token !== undefined && token !== "token 1")) return phase;
      this.healed = Math.min(end, this.clock.now);
      this.#begin();
    }
  }

  #begin() {
    this.#phase++;
    this.#began = this.clock.now;
    this.#requests = 0;
  }

  #fail() {
    this.failures.push(this.clock.now);
    this.#requests++;
  }

  /** @param {string} [refused] */
  token = async (refused) => {
    if (this.#current()?.tokensLost) {
      this.#fail();
      throw new TypeError("fetch failed");
    }
    return refused === undefined || this.outage.tokens === "same" ? "token 1" : "token 2";
  };

  /** @param {Request} request @returns {Promise<Response>} */
  fetch = async (request) => {
    const since = new URL(request.url).searchParams.get("since");
    if (this.#phase < 0) {
      assert.equal(since, "0");
      this.#begin();
      return changes(1);
    }
    assert.equal(since, "1");
    const phase = this.#current(request.headers.get("Authorization")?.slice("Bearer ".length));
    if (!phase) return changes(2);
    this.#fail();
    if (phase.lost) throw new TypeError("fetch failed");
    if (phase.hangs) {
      this.clock.sleep((phase.sleeps ?? 0) * 1000);
      return new Promise(() => {});
    }
    const body = phase.code ? JSON.stringify({ error: { code: phase.code, message: "The test refuses it.", requestId: "r" } }) : phase.body ?? "";
    return respond(body, phase.status ?? 200, phase.retryAfter);
  };
}

/** Returns a response whose body needs no timers. @param {string} body @param {number} status @param {string} [retryAfter] */
function respond(body, status, retryAfter) {
  const response = new Response(body, { status, headers: retryAfter === undefined ? {} : { "Retry-After": retryAfter } });
  response.text = async () => body;
  return response;
}

/** @param {number} seq */
function changes(seq) {
  const change = { seq, op: "put", namespace: "life", key: "k", revision: seq, at: "2000-01-01T00:00:00Z" };
  return respond(JSON.stringify({ changes: [change], nextSince: seq }), 200);
}

assert.ok(outages.length > 20);
for (const outage of outages) {
  test(outage.name, async (t) => {
    const clock = new Clock(t);
    const server = new Server(outage, clock);
    const client = createClient({ baseUrl: "http://server.example", install: "i", token: server.token, fetch: server.fetch });
    /** @type {number[]} */
    const seqs = [];
    let retried = 0;
    const stop = new AbortController();
    const work = (async () => {
      for await (const page of client.changes({ signal: stop.signal, onRetry: () => retried++ })) {
        seqs.push(...page.changes.map((c) => c.seq));
        if (seqs.length === 2) stop.abort();
      }
    })();
    if (outage.error) {
      await assert.rejects(clock.run(work), (e) => e instanceof HoldfastError && e.code === outage.error);
      assert.deepEqual(seqs, [1]);
    } else {
      await clock.run(work);
      assert.deepEqual(seqs, [1, 2]);
      assert.ok(clock.now - server.healed <= (outage.late ?? 0) * 1000, `${(clock.now - server.healed) / 1000} s after the outage`);
    }
    const [first = 0, second = clock.now] = server.failures;
    assert.ok(second - first >= (outage.least ?? 0) * 1000, `the second request after ${(second - first) / 1000} s`);
    assert.ok(server.failures.length >= 1 && server.failures.length <= outage.most, `${server.failures.length} failed requests`);
    assert.ok(retried <= server.failures.length);
  });
}
