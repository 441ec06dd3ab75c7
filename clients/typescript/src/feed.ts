import { HoldfastError } from "./error.js";
import { isLost, longest, pause } from "./send.js";
import type { components } from "./schema.js";

type ChangeList = components["schemas"]["ChangeList"];

/** Options for changes. */
export interface ChangesOptions {
  /** The number after which changes are read; default 0, all changes. */
  since?: number;
  /** Seconds that the server holds a request without changes, at most 60; default 30. With 0, the feed ends after the last change. */
  wait?: number;
  /** Changes per page, at most 1,000; default 100. */
  limit?: number;
  /** Yield a page after each request, even if it has no changes. */
  empty?: boolean;
  /** Called when a request failed and the feed goes on, with the seconds until the next request. */
  onRetry?: (error: unknown, seconds: number) => void;
  /** Ends the feed. */
  signal?: AbortSignal;
}

/** Pauses after failures in milliseconds: the first, and the longest unless the server asks for a longer pause. */
const firstPause = 250;
const longestPause = 30_000;

/**
 * Time in milliseconds for a response beyond `wait`, after which its connection counts as lost: a computer that slept does not learn
 * that its connection is gone. It doubles with each failure, for networks that are slow.
 */
const grace = 15_000;

/** Yields pages of changes. With a wait, it goes on after errors that time heals. */
export async function* follow(
  request: (since: number, wait: number, limit: number | undefined, signal: AbortSignal | undefined) => Promise<ChangeList>,
  { since = 0, wait = 30, limit, empty = false, onRetry, signal }: ChangesOptions,
): AsyncGenerator<ChangeList, void, void> {
  since = Number(since); // parse may return another number type
  for (let failed = 0; ; ) {
    const began = Date.now();
    let page: ChangeList;
    try {
      const ask = (s: AbortSignal | undefined): Promise<ChangeList> => request(since, wait, limit, s);
      page = await (wait === 0 ? ask(signal) : within(wait * 1000 + grace * 2 ** Math.min(failed, 5), signal, ask));
      if (!Array.isArray(page.changes) || !(Number(page.nextSince) >= since)) {
        throw new TypeError("the response has no changes: it is not from Holdfast");
      }
    } catch (e) {
      if (wait === 0 || signal?.aborted || !isTransient(e)) {
        throw e;
      }
      const ms = ((e instanceof HoldfastError && e.retryAfter) || 0) * 1000 + jitter(failed++);
      onRetry?.(e, ms / 1000);
      await pause(ms, signal);
      continue;
    }
    const next = Number(page.nextSince);
    const changed = next !== since;
    since = next;
    if (changed || empty) {
      yield page;
    }
    if (changed) {
      failed = 0;
    } else if (wait === 0) {
      return;
    } else if (Date.now() - began < wait * 500) {
      await pause(jitter(failed++), signal); // the server is shutting down, or has too many waiting requests
    } else {
      failed = 0;
    }
  }
}

/** Returns a pause in milliseconds. Its random part spreads clients that failed at the same time. */
function jitter(failed: number): number {
  return Math.min(firstPause * 2 ** failed, longestPause) * (0.5 + Math.random() / 2);
}

/** Reports whether the same request may succeed later without the caller's help. */
function isTransient(e: unknown): boolean {
  if (!(e instanceof HoldfastError)) {
    return isLost(e);
  }
  return e.status < 300 || e.status === 408 || e.status === 425 || e.status === 429 || e.status >= 500;
}

/** Calls fn with a signal that the caller aborts, or the time. Then it rejects, even if fn ignores the signal. */
function within<T>(ms: number, signal: AbortSignal | undefined, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
  signal?.throwIfAborted();
  const both = new AbortController();
  const abort = (): void => both.abort(signal?.reason);
  const timer = setTimeout(() => both.abort(new TypeError(`no response in ${ms / 1000} s`)), Math.min(ms, longest));
  signal?.addEventListener("abort", abort, { once: true });
  const aborted = new Promise<never>((_, reject) => both.signal.addEventListener("abort", () => reject(both.signal.reason), { once: true }));
  return Promise.race([fn(both.signal), aborted]).finally(() => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  });
}
