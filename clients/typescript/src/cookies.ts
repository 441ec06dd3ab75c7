/** Request headers from fetch or Node. */
export type RequestHeaders = { get(name: string): string | null } | Record<string, string | string[] | undefined>;

/** The session cookie. Other cookies are not sent to the server. */
const session = /^(?:__Host-|__Secure-)?gms$/;

/** Headers that identify the browser. Not Sec-Fetch-Site: it describes the page load, which another site may have started. */
const passed = ["User-Agent", "Accept-Language", "Sec-CH-UA", "Sec-CH-UA-Mobile", "Sec-CH-UA-Platform", "Save-Data", "traceparent", "tracestate"];

/** Reports whether the runtime manages cookies, as browsers do: it then hides them from programs. */
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

/** Forwards headers and cookies between a guest's browser and the server during one request. */
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

  /** Whether the browser has sent a session, or the server has started one. */
  get hasSession(): boolean {
    return this.#cookies.size > 0;
  }

  /** Returns the request with the browser's headers and session cookie. */
  dress(request: Request): Request {
    const headers = new Headers(request.headers);
    this.#headers.forEach((value, name) => headers.set(name, value));
    if (this.hasSession) {
      headers.set("Cookie", Array.from(this.#cookies, ([name, value]) => `${name}=${value}`).join("; "));
    }
    return new Request(request, { headers });
  }

  /** Stores a response's cookies. */
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

  setCookies(): string[] {
    return [...this.#set.values()];
  }
}
