import { HoldfastError } from "./error.js";

export interface SendOptions {
  token: string | (() => string | Promise<string>);
  parse: (text: string) => unknown;
  retries: number;
  maxWait: number;
}

/** What openapi-fetch makes of an answer whose body is read as text. */
interface Answer {
  data?: unknown;
  error?: unknown;
  response: Response;
}

/**
 * Sends a request until it has an answer that is not about time.
 *
 * A 429 with Retry-After has done nothing and is always sent again. Behind a 503
 * or a lost connection the write may have happened, so only what may happen
 * `twice` is.
 */
export async function send<T>(
  o: SendOptions,
  twice: boolean,
  signal: AbortSignal | undefined,
  request: (headers: Record<string, string>) => Promise<Answer>,
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
      const again = e.retryAfter !== undefined && e.retryAfter <= o.maxWait && (e.status === 429 || (e.status === 503 && twice));
      if (!again || left <= 0) {
        throw e;
      }
      wait = e.retryAfter ?? 0;
    } catch (e) {
      // A TypeError is what fetch says of a connection.
      if (!(e instanceof TypeError) || !twice || left <= 0) {
        throw e;
      }
      wait = 0;
    }
    // Clients that were turned away together should not come back together.
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
