/** Where an app keeps the token of its session, such as localStorage or the key chain of a phone. */
export interface TokenStore {
  /** Returns the token that was saved last, if any. */
  load(): string | null | undefined | Promise<string | null | undefined>;
  /** Replaces the token. */
  save(token: string): void | Promise<void>;
}

/** Sends a request with the token of the store instead of a cookie, and saves the one with which the server replaces it. */
export async function sendWithToken(store: TokenStore, request: Request, fetch: (request: Request) => Promise<Response>): Promise<Response> {
  const token = (await store.load()) || undefined;
  const headers = new Headers(request.headers);
  if (token === undefined) {
    headers.set("X-Session-Mode", "bearer");
  } else {
    headers.set("Authorization", `Bearer ${token}`);
  }
  const response = await fetch(new Request(request, { headers }));
  const next = response.headers.get("X-Session-Token");
  // The same token again would replace the one of a sign-in in the meantime.
  if (next && next !== token) {
    await store.save(next);
  }
  return response;
}
