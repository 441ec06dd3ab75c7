import { HoldfastError } from "./error.js";

export interface SendOptions {
  token: string | (() => string | Promise<string>);
  parse: (text: string) => unknown;
  retries: number;
  maxWait: number;
}

/** The result of openapi-fetch with parseAs "text". */
interface Result {
  data?: unknown;
  error?: unknown;
  response: Response;
}

/**
 * Sends a request and retries it if that is safe.
 *
 * The server has not done a request that it refused with 429 and Retry-After. After a 503 or a lost connection it may have, so
 * only `idempotent` requests are retried.
 */
export async function send<T>(
  o: SendOptions,
  idempotent: boolean,
  signal: AbortSignal | undefined,
  request: (headers: Record<string, string>) => Promise<Result>,
): Promise<T> {
  for (let left = o.retries; ; left--) {
    const token = typeof o.token === "string" ? o.token : await o.token();
    let wait: number;
    try {
      const { data, error, response } = await request({ Authorization: `Bearer ${token}` });
      if (response.ok) {
        return (data === undefined ? undefined : o.parse(data as string)) as T;
      }
      const e = new HoldfastError(response, error);
      const again = e.retryAfter !== undefined && e.retryAfter <= o.maxWait && (e.status === 429 || (e.status === 503 && idempotent));
      if (!again || left <= 0) {
        throw e;
      }
      wait = e.retryAfter ?? 0;
    } catch (e) {
      // fetch reports a failed connection as a TypeError.
      if (!(e instanceof TypeError) || !idempotent || left <= 0) {
        throw e;
      }
      wait = 0;
    }
    // The random part spreads the retries of clients that were refused at the same time.
    await pause(wait * 1000 + Math.random() * 250 * 2 ** (o.retries - left), signal);
  }
}

/** Resolves after so many milliseconds, or rejects with the signal's reason. */
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
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
  });
}
