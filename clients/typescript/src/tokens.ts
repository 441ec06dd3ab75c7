/** Stores an app's session token, e.g. in localStorage or a phone's keychain. */
export interface TokenStore {
  /** Returns the last saved token, if any. */
  load(): string | null | undefined | Promise<string | null | undefined>;
  /** Replaces the token. */
  save(token: string): void | Promise<void>;
}

/** Sends a request with the stored token instead of a cookie, and saves the server's replacement. */
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
  // Saving the same token again could overwrite the token of a concurrent sign-in.
  if (next && next !== token) {
    await store.save(next);
  }
  return response;
}
