import { solve } from "./challenge.js";
import { Visit, keepsCookies, type RequestHeaders } from "./cookies.js";
import { GuestError } from "./guest-error.js";
import { newKey } from "./key.js";
import { exchange, type Untyped, type Values, type Wire } from "./raw.js";
import { isLost, retry } from "./send.js";
import type { components } from "./guest-schema.js";

type Schemas = components["schemas"];

export interface GuestOptions {
  /** The origin of the server. In a browser it is the origin of the page: the session cookie needs it. */
  baseUrl: string;
  /**
   * On a server, the request of the guest's browser: the client sends its session cookie, User-Agent and Accept-Language. Make a
   * client for each request, and send setCookies() back. { headers: {} } is a guest without a browser. Browsers leave it out.
   */
  request?: { headers: RequestHeaders };
  /** On a server, the address of the guest's browser, for rate limits. `server.trusted_proxies` of Holdfast must name the server. */
  address?: string;
  /** Maximum number of retries of a request; default 3. */
  retries?: number;
  /** Longest Retry-After, in seconds, that the client waits for; default 60. If the server asks for more, the error is thrown. */
  maxWait?: number;
  /** Sends the requests; default the global fetch. */
  fetch?: (request: Request) => Promise<Response>;
}

export interface CallOptions {
  signal?: AbortSignal;
}

/** What a request needs besides its path. */
export interface Sent extends CallOptions {
  path?: Values;
  query?: Values;
  body?: unknown;
  /** Send an idempotency key. */
  keyed?: boolean;
  /** The answer is the same for all guests. */
  public?: boolean;
}

/** The types by which profiles differ. */
export interface Kinds {
  wish: unknown;
  wishRequest: unknown;
  viewed: unknown;
  handoff: unknown;
  pageView: unknown;
  funnelEvent: unknown;
}

const root = "/bff/consumer/v1";

/** What the guests of every profile can do. A request that needs a session begins one. */
export class GuestBase<K extends Kinds> {
  /** @internal */
  protected readonly wire: Wire;
  readonly #limits: { retries: number; maxWait: number };
  readonly #visit: Visit | undefined;
  /** Settled when it is known whether there is a session. Until then requests are sent one by one: two would begin two sessions. */
  #known: boolean;
  #first: Promise<unknown> | undefined;

  /** @internal */
  constructor({ baseUrl, request, address, retries = 3, maxWait = 60, fetch = (r) => globalThis.fetch(r) }: GuestOptions) {
    if (typeof baseUrl !== "string" || !/^https?:\/\/[^/?#]+[^?#]*$/.test(baseUrl) || baseUrl.includes(root)) {
      throw new TypeError(`baseUrl ${JSON.stringify(baseUrl)}: expected http:// or https:// and a host, without ${root}`);
    }
    if (!request && !keepsCookies()) {
      throw new TypeError("request: on a server, expected the request of the guest's browser, or { headers: {} } for a guest without one. Make a client for each request");
    }
    this.#limits = { retries, maxWait };
    const visit = request && new Visit(request.headers, address);
    this.#visit = visit;
    this.#known = visit?.hasSession ?? false;
    this.wire = { baseUrl, credentials: "include", stringify: JSON.stringify, fetch };
    if (visit) {
      this.wire.fetch = async (r) => {
        const response = await fetch(visit.dress(r));
        visit.keep(response);
        return response;
      };
    }
  }

  /** Returns the Set-Cookie headers that the browser of the request must get. In a browser, there are none. */
  setCookies(): string[] {
    return this.#visit?.setCookies() ?? [];
  }

  /** Begins a session, or returns that of the cookie. */
  begin({ signal }: CallOptions = {}): Promise<Schemas["Session"]> {
    return this.send("POST", "/session", { ...withSignal(signal) });
  }

  session({ signal }: CallOptions = {}): Promise<Schemas["Session"]> {
    return this.send("GET", "/session", { ...withSignal(signal) });
  }

  /** Changes those preferences that are given. */
  setPreferences(body: Schemas["PreferencesPatch"], { signal }: CallOptions = {}): Promise<Schemas["Session"]> {
    return this.send("PATCH", "/session/preferences", { body, ...withSignal(signal) });
  }

  /** Deletes the data of the session and begins another one. */
  async clear({ signal }: CallOptions = {}): Promise<void> {
    await this.send("POST", "/session/clear", { keyed: true, ...withSignal(signal) });
  }

  /** Returns the items that the guest has looked at, the last one first. */
  async viewed({ signal }: CallOptions = {}): Promise<K["viewed"][]> {
    return (await this.send<{ items: K["viewed"][] }>("GET", "/session/recently-viewed", { ...withSignal(signal) })).items;
  }

  /** Yields the wishlist, newest first. */
  wishlist({ signal }: CallOptions = {}): AsyncGenerator<K["wish"], void, void> {
    return this.#pages("/wishlist", signal);
  }

  /** Adds an item to the wishlist. An item that is there already does not change. */
  addWish(body: K["wishRequest"], { signal }: CallOptions = {}): Promise<K["wish"]> {
    return this.send("POST", "/wishlist", { body, keyed: true, ...withSignal(signal) });
  }

  async removeWish(item: string, { signal }: CallOptions = {}): Promise<void> {
    await this.send("DELETE", "/wishlist/{item}", { path: { item }, keyed: true, ...withSignal(signal) });
  }

  /** Yields the handoffs of the session, newest first. */
  handoffs({ signal }: CallOptions = {}): AsyncGenerator<K["handoff"], void, void> {
    return this.#pages("/handoff", signal);
  }

  /** Publishes 1 to 50 page views and returns their IDs. */
  async recordPageViews(items: K["pageView"][], { signal }: CallOptions = {}): Promise<string[]> {
    return (await this.send<{ ids: string[] }>("POST", "/telemetry/page-view", { body: { items }, keyed: true, ...withSignal(signal) })).ids;
  }

  /** Publishes 1 to 50 steps towards a handoff and returns their IDs. */
  async recordFunnelEvents(items: K["funnelEvent"][], { signal }: CallOptions = {}): Promise<string[]> {
    return (await this.send<{ ids: string[] }>("POST", "/telemetry/funnel", { body: { items }, keyed: true, ...withSignal(signal) })).ids;
  }

  async *#pages<T>(path: string, signal: AbortSignal | undefined): AsyncGenerator<T, void, void> {
    for (let query: Values = {}; ; ) {
      const page = await this.send<{ items: T[]; nextCursor: string | null }>("GET", path, { query, ...withSignal(signal) });
      yield* page.items;
      if (page.nextCursor === null) {
        return;
      }
      query = { cursor: page.nextCursor };
    }
  }

  /**
   * Sends a request, and again after a temporary refusal or a lost connection. All requests are safe to repeat: if they are not
   * by themselves, they have an idempotency key, which stays the same. Without a session, it begins one first.
   *
   * @internal
   */
  protected send<T>(method: string, path: string, sent: Sent): Promise<T> {
    const header: Record<string, string> = sent.keyed ? { "Idempotency-Key": newKey() } : {};
    const init: Untyped = { params: { path: sent.path, query: sent.query, header }, signal: sent.signal ?? null };
    if (sent.body !== undefined) {
      init.body = sent.body;
    }
    let begins = path !== "/session" || method !== "POST";
    const attempt = async (): Promise<T> => {
      for (;;) {
        const { data, error, response } = await exchange(this.wire, method, root + path, init);
        if (response.ok) {
          return data as T;
        }
        const e = new GuestError(response, error);
        if (e.code === "session-required" && begins) {
          begins = false;
          await exchange(this.wire, "POST", `${root}/session`, { signal: init.signal ?? null }).then((r) => {
            if (!r.response.ok) {
              throw new GuestError(r.response, r.error);
            }
          });
        } else if (e.challenge && !header["X-Challenge-Token"]) {
          header["X-Challenge-Token"] = await solve(e.challenge, sent.signal);
        } else {
          throw e;
        }
      }
    };
    const run = (): Promise<T> =>
      retry(this.#limits, sent.signal, attempt, (e) => {
        if (e instanceof GuestError) {
          return e.retriable ? (e.retryAfter ?? 0) : undefined;
        }
        return isLost(e) ? 0 : undefined;
      });
    return sent.public ? run() : this.#inTurn(run);
  }

  /** Runs the first request alone. If it fails, the next one is the first. */
  async #inTurn<T>(run: () => Promise<T>): Promise<T> {
    while (!this.#known && this.#first) {
      await this.#first.catch(() => undefined);
    }
    if (this.#known) {
      return run();
    }
    const first = run();
    this.#first = first;
    try {
      const result = await first;
      this.#known = true;
      return result;
    } finally {
      this.#first = undefined;
    }
  }
}

export function withSignal(signal: AbortSignal | undefined): CallOptions {
  return signal ? { signal } : {};
}
