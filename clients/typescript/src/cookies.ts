/** The headers of a request: those of fetch, or those of Node. */
export type RequestHeaders = { get(name: string): string | null } | Record<string, string | string[] | undefined>;

/** The session cookie. Other cookies of the site are not for the server. */
const session = /^(?:__Host-|__Secure-)?gms$/;

/** Headers by which the server recognizes the browser. Sec-Fetch-Site is about the page, which another site may link to. */
const passed = ["User-Agent", "Accept-Language", "Sec-CH-UA", "Sec-CH-UA-Mobile", "Sec-CH-UA-Platform", "Save-Data", "traceparent", "tracestate"];

/** Whether this runtime keeps cookies, and so hides them from programs: browsers do, servers do not. */
export function keepsCookies(): boolean {
  return !new Request("http://localhost", { headers: { Cookie: "a=b" } }).headers.has("Cookie");
}

function read(headers: RequestHeaders, name: string): string {
  if (typeof headers.get === "function") {
    return headers.get(name) ?? "";
  }
  const value = (headers as Record<string, string | string[] | undefined>)[name.toLowerCase()] ?? "";
  return Array.isArray(value) ? value.join(", ") : value;
}

/** Stands in for the cookies of one guest's browser during one request. */
export class Visit {
  readonly #headers = new Map<string, string>();
  readonly #cookies = new Map<string, string>();
  readonly #set = new Map<string, string>();

  constructor(headers: RequestHeaders, address: string | undefined) {
    for (const name of passed) {
      const value = read(headers, name);
      if (value) {
        this.#headers.set(name, value);
      }
    }
    if (address) {
      this.#headers.set("X-Forwarded-For", address);
    }
    for (const pair of read(headers, "Cookie").split(";")) {
      const at = pair.indexOf("=");
      const name = pair.slice(0, Math.max(at, 0)).trim();
      if (session.test(name) && !this.#cookies.has(name)) {
        this.#cookies.set(name, pair.slice(at + 1).trim());
      }
    }
  }

  /** Whether the browser has sent a session, or the server has begun one. */
  get hasSession(): boolean {
    return this.#cookies.size > 0;
  }

  /** Returns the request as the browser would send it. */
  dress(request: Request): Request {
    const headers = new Headers(request.headers);
    this.#headers.forEach((value, name) => headers.set(name, value));
    if (this.hasSession) {
      headers.set("Cookie", Array.from(this.#cookies, ([name, value]) => `${name}=${value}`).join("; "));
    }
    return new Request(request, { headers });
  }

  /** Keeps the cookies of a response. */
  keep(response: Response): void {
    for (const line of response.headers.getSetCookie()) {
      const pair = line.split(";", 1)[0]!;
      const at = pair.indexOf("=");
      const name = pair.slice(0, at).trim();
      const value = pair.slice(at + 1).trim();
      this.#set.set(name, line);
      if (value === "") {
        this.#cookies.delete(name);
      } else {
        this.#cookies.set(name, value);
      }
    }
  }

  /** Returns the Set-Cookie headers for the browser. */
  setCookies(): string[] {
    return [...this.#set.values()];
  }
}
