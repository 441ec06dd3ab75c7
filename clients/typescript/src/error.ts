import type { components } from "./schema.js";

export type ErrorCode = components["schemas"]["ErrorCode"];
/** A part of a value that is not valid by its schema. */
export type SchemaFailure = components["schemas"]["SchemaFailure"];

/** A request that the server refused. Members that do not apply are undefined. */
export class HoldfastError extends Error {
  override readonly name = "HoldfastError";
  /** The server's code; UNKNOWN if the response is not from Holdfast, but for example from a proxy. */
  readonly code: ErrorCode | "UNKNOWN";
  readonly status: number;
  /** With REVISION_MISMATCH: the current revision of the record; 0: it does not exist. */
  readonly currentRevision: number | undefined;
  /** Whether the same request may succeed later, without any change. */
  readonly retryable: boolean | undefined;
  /** The place in the request: a JSON pointer into the body, or "/" and a parameter's name. */
  readonly pointer: string | undefined;
  /** With LIMIT_EXCEEDED and QUOTA_EXCEEDED: the limit, and the size that was sent or would be used, if known. */
  readonly limit: number | undefined;
  readonly size: number | undefined;
  /** Why a schema refuses the value: up to 20 failures; `pointer` and the message are those of the first. */
  readonly failures: readonly SchemaFailure[];
  /** With BULK_PARTIAL_FAILURE: the index of the item that failed, from 0; `cause` is its own code. */
  readonly index: number | undefined;
  override readonly cause: ErrorCode | undefined;
  /** Seconds after which the same request may succeed. */
  readonly retryAfter: number | undefined;
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
    const after = response.headers.get("Retry-After") ?? "";
    this.retryAfter = /^\d+$/.test(after) ? Number(after) : undefined;
  }
}
