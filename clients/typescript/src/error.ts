import { secondsUntil } from "./retry-after.js";
import type { components } from "./schema.js";

/** The code in an error. Servers may add codes; treat an unknown code by its HTTP status. */
export type ErrorCode = components["schemas"]["ErrorCode"];
/** A part of a value that violates its schema. */
export type SchemaFailure = components["schemas"]["SchemaFailure"];

/** The server refused a request. Members that do not apply are undefined. */
export class HoldfastError extends Error {
  override readonly name = "HoldfastError";
  /** The server's code; UNKNOWN if the response is not from Holdfast, e.g. from a proxy. */
  readonly code: ErrorCode | "UNKNOWN";
  /** The HTTP status. */
  readonly status: number;
  /** With REVISION_MISMATCH: the record's current revision; 0: it does not exist. */
  readonly currentRevision: number | undefined;
  /** Whether the unchanged request may succeed later. */
  readonly retryable: boolean | undefined;
  /** The invalid part of the request: a JSON pointer into the body, or "/" and a parameter's name. */
  readonly pointer: string | undefined;
  /** With LIMIT_EXCEEDED and QUOTA_EXCEEDED: the limit. `size` is the sent size or the resulting usage, if known. */
  readonly limit: number | undefined;
  readonly size: number | undefined;
  /** Why a schema refuses the value: up to 20 failures; `pointer` and the message describe the first. */
  readonly failures: readonly SchemaFailure[];
  /** With BULK_PARTIAL_FAILURE: the failed item's index, from 0; `cause` is the item's code. */
  readonly index: number | undefined;
  override readonly cause: ErrorCode | undefined;
  /** Seconds until the request may succeed. */
  readonly retryAfter: number | undefined;
  /** Names the request in the server's log. */
  readonly requestId: string | undefined;

  constructor(response: Response, body: unknown) {
    const detail = (body as Partial<components["schemas"]["ErrorBody"]> | undefined)?.error;
    super(detail ? `${detail.code}: ${detail.message}` : `status ${response.status}: the response is not from Holdfast`);
    this.code = detail?.code ?? "UNKNOWN";
    this.status = response.status;
    this.currentRevision = detail?.currentRevision;
    this.retryable = detail?.retryable;
    this.pointer = detail?.pointer;
    this.limit = detail?.limit;
    this.size = detail?.size;
    this.failures = detail?.failures ?? [];
    this.index = detail?.index;
    this.cause = detail?.cause;
    this.requestId = detail?.requestId;
    this.retryAfter = secondsUntil(response.headers.get("Retry-After") ?? "");
  }
}
