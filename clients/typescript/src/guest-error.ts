import { secondsUntil } from "./retry-after.js";
import type { components } from "./guest-schema.js";

type Schemas = components["schemas"];
/** The code in an error. Servers may add codes; treat an unknown code by its HTTP status. */
export type ErrorCode = Schemas["ErrorCode"];

/** The server refused a request. */
export class GuestError extends Error {
  override readonly name = "GuestError";
  /** The server's code; UNKNOWN if the response is not from Holdfast, e.g. from a proxy. */
  readonly code: ErrorCode | "UNKNOWN";
  /** The HTTP status. */
  readonly status: number;
  /** Whether the unchanged request may succeed later. */
  readonly retriable: boolean;
  /** Errors in the body's members. */
  readonly errors: readonly Schemas["FieldError"][];
  /** With challenge-required: the challenge to solve. The client has tried once. */
  readonly challenge: Schemas["Problem"]["challenge"];
  /** With handoff-consumed from mint: the consumed handoff, such as its handoffId and consumedAt. */
  readonly handoff: Schemas["Problem"]["handoff"];
  /** With wishlist-changed: the current entity tag; undefined if there is no such entry. */
  readonly etag: string | undefined;
  /** Names the request in the server's log. */
  readonly requestId: string | undefined;
  /** Seconds until the request may succeed. */
  readonly retryAfter: number | undefined;

  constructor(response: Response, body: unknown) {
    const problem = problemOf(body);
    super(problem ? `${problem.code}: ${problem.detail}` : `status ${response.status}: the response is not from Holdfast`);
    this.code = problem?.code ?? "UNKNOWN";
    this.status = response.status;
    this.retriable = problem?.retriable ?? false;
    this.errors = problem?.errors ?? [];
    this.challenge = problem?.challenge;
    this.handoff = problem?.handoff;
    this.etag = response.headers.get("ETag") ?? undefined;
    this.requestId = problem?.requestId;
    this.retryAfter = secondsUntil(response.headers.get("Retry-After") ?? "");
  }
}

/** Returns the error in a body, even if it is nested (guest.nested_errors). */
function problemOf(body: unknown): Schemas["Problem"] | undefined {
  if (typeof body !== "object" || body === null) {
    return undefined;
  }
  if ("code" in body) {
    return body as Schemas["Problem"];
  }
  return "error" in body ? problemOf(body.error) : undefined;
}
