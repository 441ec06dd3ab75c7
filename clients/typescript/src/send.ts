import { HoldfastError } from "./error.js";
import type { RawResult } from "./raw.js";

/** A token, or a function that returns a token. See ClientOptions. */
export type Token = string | ((refused?: string) => string | Promise<string>);

/** See ClientOptions. */
export interface SendOptions {
  token: Token;
  parse: (text: string) => unknown;
  retries: number;
  /** Seconds. */
  maxWait: number;
}

/**
 * Sends a request and retries it if that is safe: a 429 with Retry-After means that the server has not applied the request. After
 * a 503 or a lost connection it may have applied it, so only `idempotent` requests are retried. After a 401 it asks the token
 * function for another token.
 */
export async function send<T>(
  o: SendOptions,
  idempotent: boolean,
  signal: AbortSignal | undefined,
  request: (headers: Record<string, string>) => Promise<RawResult<unknown>>,
): Promise<T> {
  let sent = false;
  const bearer = async (refused?: string): Promise<string> => {
    sent = false;
    const token = typeof o.token === "string" ? o.token : await o.token(refused);
    sent = true;
    return token;
  };
  const attempt = async (): Promise<T> => {
    const token = await bearer();
    let result = await request({ Authorization: `Bearer ${token}` });
    if (result.response.status === 401 && typeof o.token === "function") {
      const next = await bearer(token);
      if (next !== token) {
        result = await request({ Authorization: `Bearer ${next}` });
      }
    }
    const { data, error, response } = result;
    if (!response.ok) {
      throw new HoldfastError(response, error);
    }
    return (data === undefined ? undefined : parsed(o, data as string, response)) as T;
  };
  return retry(o, signal, attempt, (e) => {
    if (e instanceof HoldfastError) {
      return e.status === 429 || (e.status === 503 && idempotent) ? e.retryAfter : undefined;
    }
    return sent && idempotent && isLost(e) ? 0 : undefined;
  });
}

/** Decodes a response. A login page of a network, for example, is not JSON. */
function parsed(o: SendOptions, text: string, response: Response): unknown {
  try {
    return o.parse(text);
  } catch {
    throw new HoldfastError(response, undefined);
  }
}

/**
 * Calls attempt until it succeeds. waits returns the minimum number of seconds before the next attempt, or undefined to give up.
 */
export async function retry<T>(
  o: { retries: number; maxWait: number },
  signal: AbortSignal | undefined,
  attempt: () => Promise<T>,
  waits: (e: unknown) => number | undefined,
): Promise<T> {
  for (let failed = 0; ; failed++) {
    try {
      return await attempt();
    } catch (e) {
      const wait = waits(e);
      if (wait === undefined || wait > o.maxWait || failed >= o.retries) {
        throw e;
      }
      // Random jitter spreads the retries of clients refused at the same time.
      await pause(wait * 1000 + Math.random() * 250 * 2 ** failed, signal);
    }
  }
}

/** Reports whether the connection failed: fetch throws a TypeError. */
export function isLost(e: unknown): boolean {
  return e instanceof TypeError;
}

/** Longest delay of a timer, in milliseconds. setTimeout calls back at once after a longer delay. */
export const longest = 2 ** 31 - 1;

/** Resolves after ms milliseconds, or rejects with the signal's reason. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, Math.min(ms, longest));
    signal?.addEventListener("abort", abort, { once: true });
  });
}
