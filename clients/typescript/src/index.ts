import { newKey } from "./key.js";
import { createRaw, type Raw } from "./raw.js";
import { pause, send } from "./send.js";
import type { components, operations, paths } from "./schema.js";

export { HoldfastError, type ErrorCode, type SchemaFailure } from "./error.js";
export type { components, operations, paths } from "./schema.js";

type Schemas = components["schemas"];
export type RecordMeta = Schemas["RecordMeta"];
export type StoredRecord<T = unknown> = Omit<Schemas["Record"], "value"> & { value: T };
export type ListItem<T = unknown> = Omit<Schemas["ListItem"], "value"> & { value?: T };
export type IncrementResult = Schemas["IncrementResult"];
export type PutItem = Schemas["PutItem"];
export type BulkPutResult = Schemas["BulkPutResult"];
export type BatchOp = Schemas["BatchOp"];
export type BatchOpResult = Schemas["BatchOpResult"];
export type Change = Schemas["Change"];
export type ChangeList = Schemas["ChangeList"];
export type Usage = Schemas["Usage"];
export type Schema = Schemas["Schema"];
export type SchemaReport = Schemas["SchemaReport"];

export interface ClientOptions {
  /** The address of the server, such as https://holdfast.example.org, with the path prefix of its public URL if it has one, without /ext/v1. */
  baseUrl: string;
  /** The UUID of the install that the token is for. */
  install: string;
  /** A token, or a function that returns one. The client calls it before every request, so cache the token until it expires. */
  token: string | (() => string | Promise<string>);
  /** Maximum number of retries of a request; default 3. The README says what is retried. */
  retries?: number;
  /** Longest Retry-After, in seconds, that the client waits for; default 60. If the server asks for more, the error is thrown. */
  maxWait?: number;
  /** Decodes the JSON of responses; default JSON.parse, which rounds whole numbers over 2^53. */
  parse?: (text: string) => unknown;
  /** Encodes the JSON of requests; default JSON.stringify, which cannot write whole numbers over 2^53 exactly. */
  stringify?: (value: unknown) => string;
  /** Sends the requests; default the global fetch. */
  fetch?: (request: Request) => Promise<Response>;
}

export interface CallOptions {
  signal?: AbortSignal;
}

/** Conditions on the record. If one does not hold, nothing is written and REVISION_MISMATCH is thrown. */
export interface Precondition extends CallOptions {
  /** The record has this revision; 0: it does not exist. */
  ifRevision?: number;
  /** The record has this etag, which unlike a revision is never reused; "*": it exists. */
  ifMatch?: string;
}

export interface PutOptions extends Precondition {
  metadata?: { [name: string]: unknown };
  ttlSeconds?: number;
  schemaVersion?: number;
}

export interface IncrementOptions extends Precondition {
  min?: number;
  max?: number;
  /** Create the record and the objects around the number if they are missing; a missing number counts as 0. */
  create?: boolean;
  /** Use the same key to repeat the same increment; generated if left out. */
  idempotencyKey?: string;
}

export interface ListOptions extends CallOptions, NonNullable<operations["listRecords"]["parameters"]["query"]> {}

export interface SchemaListOptions extends CallOptions, NonNullable<operations["listSchemas"]["parameters"]["query"]> {}

/** Returns a client of one install. Throws a TypeError if an option is missing or not valid. */
export function createClient(options: ClientOptions): Client {
  return new Client(options);
}

type Headers = Record<string, string>;

/** Without these checks, fetch reports only "fetch failed", and a base URL with /ext/v1 reads every record as absent. */
function checkBaseURL(baseUrl: unknown): void {
  if (typeof baseUrl !== "string" || !/^https?:\/\/[^/?#]+[^?#]*$/.test(baseUrl)) {
    throw new TypeError(`baseUrl ${JSON.stringify(baseUrl)}: expected http:// or https:// and a host, such as https://holdfast.example.org`);
  }
  const [before, ...rest] = baseUrl.split("/ext/v1");
  if (rest.length > 0) {
    throw new TypeError(`baseUrl ${JSON.stringify(baseUrl)}: remove /ext/v1 and what follows; expected ${before}`);
  }
}

export class Client {
  /**
   * A typed client of the whole API by paths. It sends no token, does not retry and does not throw.
   */
  readonly raw: Raw<paths>;
  /** @internal */
  readonly call: <T>(idempotent: boolean, signal: AbortSignal | undefined, request: Parameters<typeof send>[3]) => Promise<T>;
  /** @internal */
  readonly install: { install: string };

  constructor(options: ClientOptions) {
    const { baseUrl, install, token, fetch, retries = 3, maxWait = 60, parse = JSON.parse, stringify = JSON.stringify } = options;
    checkBaseURL(baseUrl);
    if (typeof install !== "string" || install === "") {
      throw new TypeError("install: expected the UUID of the install that the token is for");
    }
    if (typeof token !== "function" && (typeof token !== "string" || token === "")) {
      throw new TypeError("token: expected a token, or a function that returns one");
    }
    this.install = { install };
    // The wrapper calls the global fetch without a receiver, and uses one that is replaced later.
    this.raw = createRaw<paths>({ baseUrl, fetch: fetch ?? ((request) => globalThis.fetch(request)), stringify });
    this.call = (idempotent, signal, request) => send({ token, retries, maxWait, parse }, idempotent, signal, request);
  }

  /** Returns the records of a namespace. */
  namespace(name: string): Namespace {
    return new Namespace(this, name);
  }

  /** Applies all operations in order, or none. */
  async batch(ops: BatchOp[], { signal, idempotencyKey = newKey() }: CallOptions & { idempotencyKey?: string } = {}): Promise<BatchOpResult[]> {
    const { results } = await this.call<Schemas["BatchResult"]>(true, signal, (headers) =>
      this.raw.POST("/ext/v1/installs/{install}/batch", {
        params: { path: this.install, header: { "Idempotency-Key": idempotencyKey } },
        ...text(headers, signal),
        body: { ops },
      }),
    );
    return results;
  }

  /**
   * Yields the changes of all namespaces that the token may read, in order, a page at a time. After the last one it waits for
   * further changes, `wait` seconds in each request; with wait 0 it ends. To continue later, pass the `nextSince` of the last page
   * as `since`. If the server no longer has the changes after `since`, it throws CHANGES_EXPIRED: call `lastChange`, read all
   * records, and continue from that number. When the signal is aborted it ends, as after the last change.
   */
  async *changes(options: CallOptions & { since?: number; wait?: number; limit?: number } = {}): AsyncGenerator<ChangeList, void, void> {
    try {
      yield* this.watch(options);
    } catch (e) {
      if (!options.signal?.aborted) {
        throw e;
      }
    }
  }

  private async *watch({ since = 0, wait = 30, limit, signal }: CallOptions & { since?: number; wait?: number; limit?: number } = {}): AsyncGenerator<ChangeList, void, void> {
    if (limit === 0) {
      throw new RangeError("limit: expected at least 1; use lastChange for the number of the last change");
    }
    since = Number(since); // parse may return numbers of another type
    for (let idle = 0; ; ) {
      const query = { since, wait, ...defined({ limit }) };
      const began = Date.now();
      const page = await this.call<ChangeList>(true, signal, (headers) =>
        this.raw.GET("/ext/v1/installs/{install}/changes", { params: { path: this.install, query }, ...text(headers, signal) }),
      );
      const next = Number(page.nextSince);
      if (next !== since) {
        idle = 0;
        since = next;
        yield page;
      } else if (wait === 0) {
        return;
      } else if (Date.now() - began < wait * 500) {
        // The server is shutting down, or has too many waiting requests.
        await pause((1 + Math.random()) * 125 * 2 ** Math.min(idle++, 5), signal);
      } else {
        idle = 0;
      }
    }
  }

  /** Returns the number of the last change. Call it before you read all records, then pass it to `changes` as `since`. */
  async lastChange({ signal }: CallOptions = {}): Promise<number> {
    const { nextSince } = await this.call<ChangeList>(true, signal, (headers) =>
      this.raw.GET("/ext/v1/installs/{install}/changes", { params: { path: this.install, query: { limit: 0 } }, ...text(headers, signal) }),
    );
    return Number(nextSince);
  }

  /** Returns the usage and quotas of the install. */
  usage({ signal }: CallOptions = {}): Promise<Usage> {
    return this.call(true, signal, (headers) =>
      this.raw.GET("/ext/v1/installs/{install}/usage", { params: { path: this.install }, ...text(headers, signal) }),
    );
  }

  /** Returns the namespaces that have records and that the token allows. */
  async namespaces({ signal }: CallOptions = {}): Promise<Schemas["NamespaceUsage"][]> {
    const { namespaces } = await this.call<Schemas["NamespaceList"]>(true, signal, (headers) =>
      this.raw.GET("/ext/v1/installs/{install}/namespaces", { params: { path: this.install }, ...text(headers, signal) }),
    );
    return namespaces;
  }
}

const records = "/ext/v1/installs/{install}/namespaces/{namespace}/records";
const record = `${records}/{key}` as const;

export class Namespace {
  readonly schemas: NamespaceSchemas;

  /** @internal */
  constructor(
    private readonly client: Client,
    readonly name: string,
  ) {
    this.schemas = new NamespaceSchemas(client, name);
  }

  private get path(): { install: string; namespace: string } {
    return { ...this.client.install, namespace: this.name };
  }

  private at(key: string): { install: string; namespace: string; key: string } {
    if (key === "." || key === "..") {
      throw new RangeError(`key "${key}": a URL path cannot contain it; use batch and list`);
    }
    return { ...this.path, key };
  }

  /** Returns the record, or undefined if it does not exist. */
  async get<T = unknown>(key: string, { signal }: CallOptions = {}): Promise<StoredRecord<T> | undefined> {
    const path = this.at(key);
    try {
      return await this.client.call(true, signal, (headers) => this.client.raw.GET(record, { params: { path }, ...text(headers, signal) }));
    } catch (e) {
      if (e instanceof Error && "code" in e && e.code === "NOT_FOUND") {
        return undefined;
      }
      throw e;
    }
  }

  /** Creates or replaces a record: value, metadata and time to live. */
  async put(key: string, value: unknown, { metadata, ttlSeconds, schemaVersion, ...precondition }: PutOptions = {}): Promise<RecordMeta> {
    const path = this.at(key);
    const { ifRevision, signal } = precondition;
    const body = { value, ...defined({ metadata, ttlSeconds, schemaVersion, ifRevision }) };
    return this.client.call(!isConditional(precondition), signal, (headers) =>
      this.client.raw.PUT(record, { params: { path, header: match(precondition) }, ...text(headers, signal), body }),
    );
  }

  /** Deletes a record. Without a precondition, it is no error if the record does not exist. */
  async delete(key: string, precondition: Precondition = {}): Promise<void> {
    const path = this.at(key);
    await this.client.call(!isConditional(precondition), precondition.signal, (headers) =>
      this.client.raw.DELETE(record, { params: { path, header: match(precondition), query: revision(precondition) }, ...text(headers, precondition.signal) }),
    );
  }

  /** Merges into the value by RFC 7396: members that are null are removed. */
  async patch(key: string, patch: unknown, precondition: Precondition = {}): Promise<RecordMeta> {
    const path = this.at(key);
    return this.client.call(!isConditional(precondition), precondition.signal, (headers) =>
      this.client.raw.PATCH(record, {
        params: { path, header: match(precondition), query: revision(precondition) },
        ...text({ ...headers, "Content-Type": "application/merge-patch+json" }, precondition.signal),
        body: patch,
      }),
    );
  }

  /** Adds to the number at a JSON pointer in the value. Retries are safe: they carry the same idempotency key. */
  async increment(key: string, pointer: string, by: number, options: IncrementOptions = {}): Promise<IncrementResult> {
    const path = this.at(key);
    const { min, max, create, ifRevision, idempotencyKey = newKey(), signal } = options;
    const body = { pointer, by, ...defined({ min, max, create, ifRevision }) };
    return this.client.call(true, signal, (headers) =>
      this.client.raw.POST(`${record}/increment`, {
        params: { path, header: { ...match(options), "Idempotency-Key": idempotencyKey } },
        ...text(headers, signal),
        body,
      }),
    );
  }

  /** Puts up to 20 records, all or nothing. */
  async bulkPut(items: PutItem[], { signal }: CallOptions = {}): Promise<BulkPutResult["items"]> {
    const path = this.path;
    const result = await this.client.call<BulkPutResult>(!items.some(isConditional), signal, (headers) =>
      this.client.raw.POST(records, { params: { path }, ...text(headers, signal), body: { items } }),
    );
    return result.items;
  }

  /** Yields all records in the order of their keys; with values and metadata if the options say so. */
  async *list<T = unknown>(options: ListOptions = {}): AsyncGenerator<ListItem<T>, void, void> {
    for (let cursor = options.cursor; ; ) {
      const page = await this.page<T>({ ...options, ...defined({ cursor }) });
      yield* page.items;
      if (page.nextCursor === null) {
        return;
      }
      cursor = page.nextCursor;
    }
  }

  /** Returns one page of the list. Pass its `nextCursor` as `cursor` for the next page. */
  page<T = unknown>({ signal, ...query }: ListOptions = {}): Promise<{ items: ListItem<T>[]; nextCursor: string | null }> {
    const path = this.path;
    return this.client.call(true, signal, (headers) =>
      this.client.raw.GET(records, { params: { path, query }, ...text(headers, signal) }),
    );
  }
}

const schemas = "/ext/v1/installs/{install}/namespaces/{namespace}/schemas";

/** The JSON Schemas of a namespace. Values are validated by the active one. */
export class NamespaceSchemas {
  private readonly path: { install: string; namespace: string };

  /** @internal */
  constructor(
    private readonly client: Client,
    namespace: string,
  ) {
    this.path = { ...client.install, namespace };
  }

  /** Yields all schemas, newest first. */
  async *list(options: SchemaListOptions = {}): AsyncGenerator<Schema, void, void> {
    for (let cursor = options.cursor; ; ) {
      const page = await this.page({ ...options, ...defined({ cursor }) });
      yield* page.schemas;
      if (page.nextCursor === null) {
        return;
      }
      cursor = page.nextCursor;
    }
  }

  /** Returns one page of the list. Pass its `nextCursor` as `cursor` for the next page. */
  page({ signal, ...query }: SchemaListOptions = {}): Promise<Schemas["SchemaList"]> {
    return this.client.call(true, signal, (headers) =>
      this.client.raw.GET(schemas, { params: { path: this.path, query }, ...text(headers, signal) }),
    );
  }

  /** Returns one version. */
  async get(version: number, { signal }: CallOptions = {}): Promise<Schema> {
    const path = { ...this.path, version: Number(version) };
    return this.client.call(true, signal, (headers) =>
      this.client.raw.GET(`${schemas}/{version}`, { params: { path }, ...text(headers, signal) }),
    );
  }

  /** Registers a schema as a draft, with the next version number. */
  async register(schema: Schemas["SchemaDocument"], { signal }: CallOptions = {}): Promise<Schema> {
    return this.client.call(false, signal, (headers) =>
      this.client.raw.POST(schemas, { params: { path: this.path }, ...text(headers, signal), body: { schema } }),
    );
  }

  /** Activates a version, which deprecates the previously active one, or deprecates it. */
  async setStatus(version: number, status: "active" | "deprecated", { signal }: CallOptions = {}): Promise<Schema> {
    const path = { ...this.path, version: Number(version) };
    return this.client.call(true, signal, (headers) =>
      this.client.raw.PATCH(`${schemas}/{version}`, { params: { path }, ...text(headers, signal), body: { status } }),
    );
  }

  /**
   * Reports how a schema differs from the active one, and which stored records it would refuse. The server checks records in
   * parts; the report is about all of them, or about those after `cursor`.
   */
  async check(what: Schemas["SchemaCheckRequest"], { signal }: CallOptions = {}): Promise<SchemaReport> {
    let checked = 0;
    let failed = 0;
    let firstFailures: SchemaReport["records"]["firstFailures"] = [];
    for (let body = what; ; ) {
      const report = await this.client.call<SchemaReport>(true, signal, (headers) =>
        this.client.raw.POST(`${schemas}/check`, { params: { path: this.path }, ...text(headers, signal), body }),
      );
      const { nextCursor } = report.records;
      checked += report.records.checked;
      failed += report.records.failed;
      firstFailures = [...firstFailures, ...report.records.firstFailures].slice(0, 10);
      if (nextCursor === null) {
        return { ...report, records: { checked, failed, firstFailures, nextCursor } };
      }
      body = { ...what, cursor: nextCursor };
    }
  }
}

/** Returns options with which Raw does not decode the body, because ClientOptions.parse does. */
function text(headers: Headers, signal: AbortSignal | undefined): { headers: Headers; parseAs: "text"; signal: AbortSignal | null } {
  return { headers, parseAs: "text", signal: signal ?? null };
}

function isConditional(g: { ifRevision?: number; ifMatch?: string }): boolean {
  return g.ifRevision !== undefined || g.ifMatch !== undefined;
}

function match({ ifMatch }: Precondition): { "If-Match"?: string } {
  return ifMatch === undefined ? {} : { "If-Match": ifMatch };
}

function revision({ ifRevision }: Precondition): { ifRevision?: number } {
  return ifRevision === undefined ? {} : { ifRevision: Number(ifRevision) };
}

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** Returns the object without members that are undefined. */
function defined<T extends object>(o: T): Defined<T> {
  return Object.fromEntries(Object.entries(o).filter(([, v]) => v !== undefined)) as Defined<T>;
}
