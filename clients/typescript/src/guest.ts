import createFetch, { type Client as Fetch } from "openapi-fetch";

import { solve } from "./challenge.js";
import { newKey } from "./key.js";
import { isLost, retry } from "./send.js";
import type { components, operations, paths } from "./guest-schema.js";

export type { components, operations, paths } from "./guest-schema.js";

type Schemas = components["schemas"];
export type ErrorCode = Schemas["ErrorCode"];
export type Session = Schemas["Session"];
export type Viewed = Schemas["Viewed"];
export type Searched = Schemas["Searched"];
export type SearchQuery = Schemas["SearchQuery"];
export type SearchResults = Schemas["SearchResults"];
export type MapQuery = Schemas["MapQuery"];
export type Pins = Schemas["Pins"];
export type Hotel = Schemas["Hotel"];
export type Availability = Schemas["Availability"];
export type Facets = Schemas["Facets"];
export type Brand = Schemas["Brand"];
export type Wish = Schemas["Wish"];
export type WishRequest = Schemas["WishRequest"];
export type MintRequest = Schemas["MintRequest"];
export type Minted = Schemas["Minted"];
export type Handoff = Schemas["Handoff"];
export type PageView = Schemas["PageView"];
export type FunnelEvent = Schemas["FunnelEvent"];

export interface GuestOptions {
  /** The origin of the server, which is that of the page: the cookie of the session needs it. */
  baseUrl: string;
  /** Maximum number of retries of a request; default 3. */
  retries?: number;
  /** Longest Retry-After, in seconds, that the client waits for; default 60. If the server asks for more, the error is thrown. */
  maxWait?: number;
  /** Sends the requests; default the global fetch. Outside of browsers it must keep the cookie. */
  fetch?: (request: Request) => Promise<Response>;
}

export interface CallOptions {
  signal?: AbortSignal;
}

/** The locale and the currency of an answer. Without them, the browser's language decides. */
export interface HotelOptions extends CallOptions, NonNullable<operations["getHotel"]["parameters"]["query"]> {}

/** The dates of a stay, YYYY-MM-DD, and who stays: 2 adults, no children and one room if left out. */
export type Nights = operations["getAvailability"]["parameters"]["query"];

/** A request that the server refused. */
export class GuestError extends Error {
  override readonly name = "GuestError";
  /** The server's code; UNKNOWN if the response is not from Holdfast, but for example from a proxy. */
  readonly code: ErrorCode | "UNKNOWN";
  readonly status: number;
  /** Whether the same request may succeed later, without any change. */
  readonly retriable: boolean;
  /** What is wrong with parts of the body. */
  readonly errors: readonly Schemas["FieldError"][];
  /** With challenge-required: what to solve. The client has tried once. */
  readonly challenge: Schemas["Problem"]["challenge"];
  readonly requestId: string | undefined;
  /** Seconds after which the same request may succeed. */
  readonly retryAfter: number | undefined;

  constructor(response: Response, body: unknown) {
    const problem = problemOf(body);
    super(problem ? `${problem.code}: ${problem.detail}` : `status ${response.status}: the response is not from Holdfast`);
    this.code = problem?.code ?? "UNKNOWN";
    this.status = response.status;
    this.retriable = problem?.retriable ?? false;
    this.errors = problem?.errors ?? [];
    this.challenge = problem?.challenge;
    this.requestId = problem?.requestId;
    const after = response.headers.get("Retry-After") ?? "";
    this.retryAfter = /^\d+$/.test(after) ? Number(after) : undefined;
  }
}

/** Returns the error in a body, also a nested one (guest.nested_errors). */
function problemOf(body: unknown): Schemas["Problem"] | undefined {
  if (typeof body !== "object" || body === null) {
    return undefined;
  }
  if ("code" in body) {
    return body as Schemas["Problem"];
  }
  return "error" in body ? problemOf(body.error) : undefined;
}

/** The result of openapi-fetch. */
interface Result<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Returns a client of the guest service. Throws a TypeError if the base URL is not valid. */
export function createGuestClient(options: GuestOptions): GuestClient {
  return new GuestClient(options);
}

/** The browser of one guest. A request that needs a session begins one. */
export class GuestClient {
  /** A typed client of the whole API by paths. It does not retry and does not throw. */
  readonly raw: Fetch<paths>;
  readonly #limits: { retries: number; maxWait: number };

  constructor({ baseUrl, retries = 3, maxWait = 60, fetch }: GuestOptions) {
    if (typeof baseUrl !== "string" || !/^https?:\/\/[^/?#]+[^?#]*$/.test(baseUrl) || baseUrl.includes("/bff/consumer/v1")) {
      throw new TypeError(`baseUrl ${JSON.stringify(baseUrl)}: expected http:// or https:// and a host, without /bff/consumer/v1`);
    }
    this.#limits = { retries, maxWait };
    this.raw = createFetch<paths>({ baseUrl, credentials: "include", fetch: fetch ?? ((request) => globalThis.fetch(request)) });
  }

  /** Begins a session, or returns that of the cookie. */
  begin({ signal }: CallOptions = {}): Promise<Session> {
    return this.#send(signal, () => this.raw.POST("/bff/consumer/v1/session", withSignal(signal)), false);
  }

  session({ signal }: CallOptions = {}): Promise<Session> {
    return this.#send(signal, () => this.raw.GET("/bff/consumer/v1/session", withSignal(signal)));
  }

  /** Changes those preferences that are given. */
  setPreferences(body: Schemas["PreferencesPatch"], { signal }: CallOptions = {}): Promise<Session> {
    return this.#send(signal, () => this.raw.PATCH("/bff/consumer/v1/session/preferences", { body, ...withSignal(signal) }));
  }

  /** Deletes what the session has and begins another one. */
  async clear({ signal }: CallOptions = {}): Promise<void> {
    const params = keyed();
    await this.#send(signal, () => this.raw.POST("/bff/consumer/v1/session/clear", { params, ...withSignal(signal) }));
  }

  /** Returns the properties that the guest has looked at, the last one first. */
  async viewed({ signal }: CallOptions = {}): Promise<Viewed[]> {
    return (await this.#send(signal, () => this.raw.GET("/bff/consumer/v1/session/recently-viewed", withSignal(signal)))).items;
  }

  addViewed(tenantId: string, propertyId: string, { signal }: CallOptions = {}): Promise<Viewed> {
    return this.#send(signal, () => this.raw.POST("/bff/consumer/v1/session/recently-viewed", { body: { tenantId, propertyId }, ...withSignal(signal) }));
  }

  /** Returns the searches of the guest, the last one first. */
  async history({ signal }: CallOptions = {}): Promise<Searched[]> {
    return (await this.#send(signal, () => this.raw.GET("/bff/consumer/v1/session/history", withSignal(signal)))).items;
  }

  /** Begins a search session and returns its first page. */
  search(body: SearchQuery, { signal }: CallOptions = {}): Promise<SearchResults> {
    return this.#send(signal, () => this.raw.POST("/bff/consumer/v1/search", { body, ...withSignal(signal) }));
  }

  /** Returns a page of a search session, from 1. */
  continueSearch(srsId: string, page: number, { signal }: CallOptions = {}): Promise<SearchResults> {
    return this.#send(signal, () => this.raw.GET("/bff/consumer/v1/search/{srsId}", { params: { path: { srsId }, query: { page } }, ...withSignal(signal) }));
  }

  /** Returns the properties in a part of the map. */
  searchMap(body: MapQuery, { signal }: CallOptions = {}): Promise<Pins> {
    return this.#send(signal, () => this.raw.POST("/bff/consumer/v1/search/map", { body, ...withSignal(signal) }));
  }

  hotel(propertyId: string, { signal, ...query }: HotelOptions = {}): Promise<Hotel> {
    return this.#send(signal, () => this.raw.GET("/bff/consumer/v1/hotels/{propertyId}", { params: { path: { propertyId }, query }, ...withSignal(signal) }));
  }

  /** Returns what a property offers for a stay. */
  availability(propertyId: string, query: Nights, { signal }: CallOptions = {}): Promise<Availability> {
    const params = { path: { propertyId }, query };
    return this.#send(signal, () => this.raw.GET("/bff/consumer/v1/hotels/{propertyId}/availability", { params, ...withSignal(signal) }));
  }

  /** Returns by what a search in a region can be limited. */
  facets(country: string, region: string, { signal }: CallOptions = {}): Promise<Facets> {
    const params = { path: { country, region } };
    return this.#send(signal, () => this.raw.GET("/bff/consumer/v1/facets/{country}/{region}", { params, ...withSignal(signal) }));
  }

  /** Returns how a tenant presents itself. */
  brand(tenantId: string, { signal }: CallOptions = {}): Promise<Brand> {
    return this.#send(signal, () => this.raw.GET("/bff/consumer/v1/brands/{tenantId}/peek", { params: { path: { tenantId } }, ...withSignal(signal) }));
  }

  /** Yields the wishlist, newest first. */
  wishlist({ signal }: CallOptions = {}): AsyncGenerator<Wish, void, void> {
    return pages((query) => this.#send(signal, () => this.raw.GET("/bff/consumer/v1/wishlist", { params: { query }, ...withSignal(signal) })));
  }

  /** Adds a property to the wishlist. One that is there already does not change. */
  addWish(body: WishRequest, { signal }: CallOptions = {}): Promise<Wish> {
    const params = keyed();
    return this.#send(signal, () => this.raw.POST("/bff/consumer/v1/wishlist", { params, body, ...withSignal(signal) }));
  }

  /** Replaces the note of a property on the wishlist. An empty one removes it. */
  setNote(propertyId: string, note: string, { signal }: CallOptions = {}): Promise<Wish> {
    const params = { path: { propertyId }, ...keyed() };
    return this.#send(signal, () => this.raw.PATCH("/bff/consumer/v1/wishlist/{propertyId}", { params, body: { note }, ...withSignal(signal) }));
  }

  async removeWish(propertyId: string, { signal }: CallOptions = {}): Promise<void> {
    const params = { path: { propertyId }, ...keyed() };
    await this.#send(signal, () => this.raw.DELETE("/bff/consumer/v1/wishlist/{propertyId}", { params, ...withSignal(signal) }));
  }

  /** Mints a handoff. Then send the guest to its redirectUrl. If the server takes the browser for a bot, this solves its challenge. */
  mint(tenantId: string, propertyId: string, body: MintRequest, { signal }: CallOptions = {}): Promise<Minted> {
    const { header } = keyed();
    return this.#send(signal, (solved) => {
      const params = { path: { tenantId, propertyId }, header: { ...header, ...solved } };
      return this.raw.POST("/bff/consumer/v1/handoff/{tenantId}/{propertyId}", { params, body, ...withSignal(signal) });
    });
  }

  /** Yields the handoffs of the session, newest first. */
  handoffs({ signal }: CallOptions = {}): AsyncGenerator<Handoff, void, void> {
    return pages((query) => this.#send(signal, () => this.raw.GET("/bff/consumer/v1/handoff", { params: { query }, ...withSignal(signal) })));
  }

  /** Publishes 1 to 50 page views and returns their IDs. */
  async recordPageViews(items: PageView[], { signal }: CallOptions = {}): Promise<string[]> {
    const params = keyed();
    return (await this.#send(signal, () => this.raw.POST("/bff/consumer/v1/telemetry/page-view", { params, body: { items }, ...withSignal(signal) }))).ids;
  }

  /** Publishes 1 to 50 steps towards a booking and returns their IDs. */
  async recordFunnelEvents(items: FunnelEvent[], { signal }: CallOptions = {}): Promise<string[]> {
    const params = keyed();
    return (await this.#send(signal, () => this.raw.POST("/bff/consumer/v1/telemetry/funnel", { params, body: { items }, ...withSignal(signal) }))).ids;
  }

  /**
   * Sends a request, and again after a refusal that passes or a lost connection. All requests are safe to repeat: those that are
   * not by themselves have an idempotency key, which stays the same. Without a session, it begins one first.
   */
  #send<T>(signal: AbortSignal | undefined, request: (solved: Solved) => Promise<Result<T>>, begins = true): Promise<T> {
    const solved: Solved = {};
    const attempt = async (): Promise<T> => {
      for (;;) {
        const { data, error, response } = await request(solved);
        if (response.ok) {
          return data as T;
        }
        const e = new GuestError(response, error);
        if (e.code === "session-required" && begins) {
          begins = false;
          await this.begin(withSignal(signal));
        } else if (e.challenge && !solved["X-Challenge-Token"]) {
          solved["X-Challenge-Token"] = await solve(e.challenge, signal);
        } else {
          throw e;
        }
      }
    };
    return retry(this.#limits, signal, attempt, (e) => {
      if (e instanceof GuestError) {
        return e.retriable ? (e.retryAfter ?? 0) : undefined;
      }
      return isLost(e) ? 0 : undefined;
    });
  }
}

/** The header with the solution of a challenge. */
type Solved = { "X-Challenge-Token"?: string };

/** Yields the items of pages. read reads that of a cursor. */
async function* pages<T>(read: (query: { cursor?: string }) => Promise<{ items: T[]; nextCursor: string | null }>): AsyncGenerator<T, void, void> {
  for (let query: { cursor?: string } = {}; ; ) {
    const page = await read(query);
    yield* page.items;
    if (page.nextCursor === null) {
      return;
    }
    query = { cursor: page.nextCursor };
  }
}

function withSignal(signal: AbortSignal | undefined): { signal?: AbortSignal } {
  return signal ? { signal } : {};
}

function keyed(): { header: { "Idempotency-Key": string } } {
  return { header: { "Idempotency-Key": newKey() } };
}
