import { checkScalar, encode } from "./checked.js";

/** A client for all paths of an OpenAPI description, with types from openapi-typescript. */

type Method = "get" | "put" | "post" | "delete" | "patch" | "head";

type PathsOf<Paths, M extends Method> = { [P in keyof Paths]: Paths[P] extends { [m in M]: object } ? P : never }[keyof Paths] & string;

type Operation<Paths, P extends keyof Paths, M extends Method> = Paths[P] extends { [m in M]: infer Op } ? Op : never;

type RequiredKeys<T> = { [K in keyof T]-?: object extends Pick<T, K> ? never : K }[keyof T];

type Content<T> = T extends { content: infer C } ? C[keyof C] : undefined;

type Params<Op> = Op extends { parameters: infer P } ? ([RequiredKeys<P>] extends [never] ? { params?: P } : { params: P }) : object;

type Body<Op> = Op extends { requestBody: infer B } ? { body: Content<B> } : Op extends { requestBody?: infer B } ? { body?: Content<B> } : object;

type Responses<Op> = Op extends { responses: infer R } ? R : never;

type Success<Op> = { [S in keyof Responses<Op>]: S extends 200 | 201 | 202 | 204 | 206 ? Content<Responses<Op>[S]> : never }[keyof Responses<Op>];

type Failure<Op> = { [S in keyof Responses<Op>]: S extends 200 | 201 | 202 | 204 | 206 | 304 ? never : Content<Responses<Op>[S]> }[keyof Responses<Op>];

/** Options of every raw request. */
export interface RawOptions {
  headers?: Record<string, string>;
  signal?: AbortSignal | null;
  /** How to read a success body; default "json". "stream" leaves it in response.body. */
  parseAs?: "json" | "text" | "stream";
}

/** A response. If it has a body, either data or error is set. */
export interface RawResult<Data, Failure = unknown> {
  data?: Data;
  error?: Failure;
  response: Response;
}

type Call<Paths, M extends Method> = <P extends PathsOf<Paths, M>>(
  path: P,
  ...init: object extends Params<Operation<Paths, P, M>> & Body<Operation<Paths, P, M>>
    ? [init?: RawOptions & Params<Operation<Paths, P, M>> & Body<Operation<Paths, P, M>>]
    : [init: RawOptions & Params<Operation<Paths, P, M>> & Body<Operation<Paths, P, M>>]
) => Promise<RawResult<Success<Operation<Paths, P, M>>, Failure<Operation<Paths, P, M>>>>;

/** A method for each HTTP method. Path, parameters, body and result are typed by the API description. */
export interface Raw<Paths> {
  GET: Call<Paths, "get">;
  PUT: Call<Paths, "put">;
  POST: Call<Paths, "post">;
  DELETE: Call<Paths, "delete">;
  PATCH: Call<Paths, "patch">;
  HEAD: Call<Paths, "head">;
}

/** Path parameters, query parameters or headers by name. */
export type Values = Record<string, unknown>;

/** An untyped request. */
export interface Untyped extends RawOptions {
  params?: { path?: Values | undefined; query?: Values | undefined; header?: Values | undefined };
  body?: unknown;
}

/** How requests are sent. */
export interface Wire {
  baseUrl: string;
  fetch: (request: Request) => Promise<Response>;
  /** Encodes JSON bodies. */
  stringify: (value: unknown) => string;
  /** Whether browsers send cookies; undefined for their default. */
  credentials?: "include" | "omit";
}

/**
 * Sends a request once. An error status is a result, not an exception; a lost connection throws. Throws a RangeError, and sends
 * nothing, for an unpaired surrogate, NaN or Infinity.
 */
export async function exchange(wire: Wire, method: string, path: string, init: Untyped = {}): Promise<RawResult<unknown>> {
  const headers = new Headers(init.headers);
  for (const [name, value] of Object.entries(init.params?.header ?? {})) {
    if (value !== undefined && value !== null) {
      checkScalar(name, value);
      setHeader(headers, name, String(value));
    }
  }
  const all: RequestInit = { method, headers, signal: init.signal ?? null };
  if (init.body !== undefined) {
    const type = headers.get("Content-Type") ?? "application/json";
    headers.set("Content-Type", type);
    if (/[/+]json$/.test(type)) {
      all.body = encode(init.body, wire.stringify);
    } else {
      checkScalar("body", init.body);
      all.body = init.body as BodyInit;
    }
  }
  if (wire.credentials && "credentials" in Request.prototype) {
    all.credentials = wire.credentials; // some edge runtimes refuse this option
  }
  const response = await wire.fetch(new Request(wire.baseUrl.replace(/\/+$/, "") + fill(path, init.params?.path) + queryOf(init.params?.query), all));
  if (!response.ok) {
    return { error: parsed(await response.text()), response };
  }
  if (response.status === 204 || method === "HEAD" || init.parseAs === "stream") {
    return { response };
  }
  return { data: init.parseAs === "text" ? await response.text() : await response.json(), response };
}

/** Sets a header. The error is not the TypeError of a lost connection. */
function setHeader(headers: Headers, name: string, value: string): void {
  try {
    headers.set(name, value);
  } catch (cause) {
    throw new RangeError(`${name}: expected visible ASCII characters`, { cause });
  }
}

/** Returns an error's JSON, or the text, e.g. from a proxy. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Replaces {NAME} in a path by its encoded value. fetch would resolve "." and "..", even escaped, to another path. */
function fill(path: string, values: Values = {}): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    checkScalar(name, values[name]);
    const value = String(values[name]);
    if (value === "." || value === "..") {
      throw new RangeError(`${name}: expected a text other than "." and "..", which a path cannot contain`);
    }
    return encodeURIComponent(value);
  });
}

/** Encodes parameters; lists repeat the name, and undefined members are left out. */
function queryOf(values: Values = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null) {
        checkScalar(name, each);
        query.append(name, String(each));
      }
    }
  }
  const text = query.toString();
  return text && `?${text}`;
}

/** Returns a client that sends each request once and does not throw on an error status. */
export function createRaw<Paths>(wire: Wire): Raw<Paths> {
  const call = (method: string) => (path: string, init?: Untyped) => exchange(wire, method, path, init);
  const methods = ["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD"];
  return Object.fromEntries(methods.map((m) => [m, call(m)])) as unknown as Raw<Paths>;
}
