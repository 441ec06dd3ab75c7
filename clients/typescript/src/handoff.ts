/** Claims in every handoff token. Digests are base64url, keyed by the server. */
interface CommonClaims {
  /** "bhd_" and a ULID; consume the handoff by it. */
  handoffId: string;
  /** The guest's session: "gms_" and a ULID. */
  sessionId: string;
  /** UUID in lower case. */
  tenantId: string;
  /** ISO 4217, e.g. EUR. */
  currency: string;
  /** BCP 47, e.g. de-AT. */
  locale: string;
  /** The campaign's digest, if the session has a campaign. */
  campaign: string | undefined;
  /** The browser's digest. */
  fingerprint: string;
  /** The address's digest. */
  ip: string;
  /** In whole seconds. */
  mintedAt: Date;
  /** At most 30 minutes later. */
  expiresAt: Date;
  /** The key that signed the token. */
  keyId: string;
}

/** Claims for a stay, in the profile `hotel`. */
export interface HandoffStayClaims extends CommonClaims {
  /** UUID in lower case. */
  propertyId: string;
  /** YYYY-MM-DD. */
  checkIn: string;
  /** YYYY-MM-DD, after checkIn. */
  checkOut: string;
  /** 1 to 99. */
  adults: number;
  /** 0 to 99. */
  children: number;
  /** 1 to 99. */
  rooms: number;
  itemId?: undefined;
  payload?: undefined;
}

/** Claims for a payload, in other profiles. */
export interface HandoffItemClaims extends CommonClaims {
  itemId: string;
  /** The payload's SHA-256, base64url. Consuming the handoff returns the payload. */
  payload: string;
  propertyId?: undefined;
  checkIn?: undefined;
  checkOut?: undefined;
  adults?: undefined;
  children?: undefined;
  rooms?: undefined;
}

/** A verified token's contents: a stay in profile hotel, otherwise an item with a payload. */
export type HandoffClaims = HandoffStayClaims | HandoffItemClaims;

/**
 * Why a token was not accepted. `no-key-set` is temporary: the key set could not be fetched. `expired` and `not-yet-valid` tokens are
 * authentic. All others may be forged.
 */
export type HandoffTokenErrorCode =
  | "malformed"
  | "algorithm"
  | "unknown-key"
  | "signature"
  | "issuer"
  | "tenant"
  | "not-yet-valid"
  | "expired"
  | "no-key-set";

/** The token is invalid, or cannot be verified (`no-key-set`). */
export class HandoffTokenError extends Error {
  override readonly name = "HandoffTokenError";
  readonly code: HandoffTokenErrorCode;

  constructor(code: HandoffTokenErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Where the keys are, and which tokens to accept. */
export interface HandoffVerifierOptions {
  /** URL of the tenant's JWK Set: https, or http on localhost. */
  keySet: string;
  /** The server's `guest.handoff_issuer`. */
  issuer: string;
  /** UUID in lower case. */
  tenant: string;
  /** Replaces the global fetch. It must respect `redirect: "manual"`. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** Milliseconds since 1970; default Date.now. */
  now?: () => number;
}

/** Verifies tokens. It fetches the key set on demand, and caches it up to 15 minutes. */
export interface HandoffVerifier {
  /** Returns a token's claims, or throws a HandoffTokenError. Consume the handoff before you show anything to the guest. */
  verify(token: string): Promise<HandoffClaims>;
}

const maxToken = 2048;
const maxKeySet = 64 << 10;
const maxKeys = 100;
const maxLife = 30 * 60;
const leeway = 30; // seconds of clock skew
const defaultFresh = 5 * 60_000;
const maxFresh = 15 * 60_000;
const maxStale = 60 * 60_000; // while the server is unavailable
const fetchPause = 15_000; // minimum between two fetches
const fetchTime = 10_000;

type Bytes = Uint8Array<ArrayBuffer>;
type Members = Record<string, unknown>;

const malformed = (): HandoffTokenError => new HandoffTokenError("malformed", "not a handoff token");
const isKeyId = (v: unknown): v is string => typeof v === "string" && /^[A-Za-z0-9_-]{1,32}$/.test(v);
const isText = (v: unknown, most = 64): v is string => typeof v === "string" && v.length <= most && /^[!-~]+$/.test(v);

// Item IDs are at most 256 bytes long in UTF-8.
const isItem = (v: unknown): v is string => typeof v === "string" && !/[\u0000-\u001f\u007f-\u009f]/.test(v) && v !== "" && new TextEncoder().encode(v).length <= 256;

/** Decodes only canonical base64url without padding: atob ignores unused bits and spaces. */
function decode(text: unknown): Bytes | undefined {
  if (typeof text !== "string" || !/^[A-Za-z0-9_-]*$/.test(text) || text.length % 4 === 1) return undefined;
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const same = btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return same === text ? Uint8Array.from(binary, (c) => c.charCodeAt(0)) : undefined;
}

function parseObject(bytes: Bytes | undefined): Members | undefined {
  try {
    const v: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    return typeof v === "object" && v !== null && !Array.isArray(v) ? (v as Members) : undefined;
  } catch {
    return undefined;
  }
}

interface Token {
  keyId: string;
  signed: Bytes;
  signature: Bytes;
  payload: string;
}

/** Splits a token. Its header never selects the algorithm or the key's location. */
function parse(token: string): Token {
  if (typeof token !== "string" || token.length > maxToken) throw malformed();
  const other = new HandoffTokenError("algorithm", "the token is not signed with Ed25519");
  if (token.startsWith("bh1.")) throw other;
  const fields = token.split(".");
  const header = parseObject(decode(fields[0]));
  if (fields.length !== 3 || header === undefined) throw malformed();
  if (header["alg"] !== "EdDSA") throw other;
  const [first, payload, last] = fields as [string, string, string];
  const signature = decode(last);
  if (header["typ"] !== "handoff+jwt" || "crit" in header || !isKeyId(header["kid"]) || signature?.length !== 64) throw malformed();
  return { keyId: header["kid"], signed: new TextEncoder().encode(`${first}.${payload}`) as Bytes, signature, payload };
}

function isDate(v: unknown): v is string {
  if (typeof v !== "string" || !/^\d{4}-\d{2}-\d{2}$/.test(v)) return false;
  const day = new Date(`${v}T00:00:00Z`);
  return !Number.isNaN(day.getTime()) && day.toISOString().startsWith(v);
}

const isCount = (v: unknown, least: number): v is number => Number.isInteger(v) && (v as number) >= least && (v as number) <= 99;

const isDigest = (v: unknown): v is string => decode(v)?.length === 32;

/** Reads the claims for a stay or a payload. */
function readSubject(c: Members): Omit<HandoffStayClaims, keyof CommonClaims> | Omit<HandoffItemClaims, keyof CommonClaims> {
  const { propertyId, checkIn, checkOut, adults, children, rooms, itemId, payload } = c;
  if (itemId !== undefined || payload !== undefined) {
    const none = [propertyId, checkIn, checkOut, adults, children, rooms].every((v) => v === undefined);
    if (!none || !isItem(itemId) || !isDigest(payload)) throw malformed();
    return { itemId, payload };
  }
  const counts = isCount(adults, 1) && isCount(children, 0) && isCount(rooms, 1);
  const dates = isDate(checkIn) && isDate(checkOut) && checkOut > checkIn;
  if (!isText(propertyId) || !counts || !dates) throw malformed();
  return { propertyId, checkIn, checkOut, adults, children, rooms };
}

/** Reads the claims and ignores unknown claims, which a later release may add. */
function read(c: Members, keyId: string): HandoffClaims {
  const { jti, sub, aud, currency, locale, campaign, fingerprint, ip, iat, exp } = c;
  const texts = isText(jti) && isText(sub) && isText(aud) && isText(currency) && isText(locale);
  const digests = (campaign === undefined || isDigest(campaign)) && isDigest(fingerprint) && isDigest(ip);
  const times = Number.isSafeInteger(iat) && Number.isSafeInteger(exp);
  if (!texts || !digests || !times) throw malformed();
  const [minted, expires] = [iat as number, exp as number];
  if (minted <= 0 || expires <= minted || expires - minted > maxLife) throw malformed();
  return {
    handoffId: jti, sessionId: sub, tenantId: aud, ...readSubject(c), currency, locale,
    campaign, fingerprint, ip, mintedAt: new Date(minted * 1000), expiresAt: new Date(expires * 1000), keyId,
  };
}

/** Reads a JWK Set. It ignores keys of other types or for other uses, and refuses a private key. */
async function parseKeys(bytes: Bytes): Promise<Map<string, CryptoKey>> {
  const list = parseObject(bytes)?.["keys"];
  if (!Array.isArray(list) || list.length > maxKeys) throw new Error(`not a JWK Set with at most ${maxKeys} keys`);
  const keys = new Map<string, CryptoKey>();
  for (const k of list as unknown[]) {
    if (typeof k !== "object" || k === null) throw new Error("not a JWK Set");
    const { kty, crv, use = "sig", alg = "EdDSA", kid, x, d } = k as Members;
    if (d !== undefined) throw new Error("the key set has a private key");
    if (kty !== "OKP" || crv !== "Ed25519" || use !== "sig" || alg !== "EdDSA") continue;
    const raw = decode(x);
    if (!isKeyId(kid) || raw?.length !== 32 || keys.has(kid)) throw new Error("a key of the key set is not valid, or is there twice");
    keys.set(kid, await crypto.subtle.importKey("raw", raw, { name: "Ed25519" }, false, ["verify"]));
  }
  return keys;
}

/** Reads a body of at most maxKeySet bytes. */
async function readBody(response: Response): Promise<Bytes> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (let part = await reader?.read(); reader && part && !part.done; part = await reader.read()) {
    size += part.value.length;
    if (size > maxKeySet) {
      await reader.cancel();
      throw new Error(`the key set has more than ${maxKeySet} bytes`);
    }
    chunks.push(part.value);
  }
  const all = new Uint8Array(size);
  let at = 0;
  for (const c of chunks) {
    all.set(c, at);
    at += c.length;
  }
  return all;
}

/** Returns how long an answer stays fresh, in milliseconds, at most maxFresh. */
function freshness(headers: Headers): number {
  const control = (headers.get("Cache-Control") ?? "").toLowerCase();
  if (/(^|[\s,])no-(store|cache)([\s,=]|$)/.test(control)) return 0;
  const age = /(?:^|[\s,])max-age=(\d{1,9})(?:[\s,]|$)/.exec(control)?.[1];
  const passed = /^\d{1,9}$/.exec(headers.get("Age") ?? "")?.[0] ?? "0";
  const fresh = (age === undefined ? defaultFresh : Number(age) * 1000) - Number(passed) * 1000;
  return Math.min(Math.max(fresh, 0), maxFresh);
}

/** Returns a verifier for a tenant's tokens. It needs WebCrypto with Ed25519: Node 20, or a current browser, Deno, Bun or edge runtime. */
export function createHandoffVerifier(options: HandoffVerifierOptions): HandoffVerifier {
  const { keySet, issuer, tenant, fetch = globalThis.fetch, now = Date.now } = options;
  const url = new URL(keySet);
  const local = url.protocol === "http:" && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
  if ((url.protocol !== "https:" && !local) || url.username !== "" || url.password !== "") {
    throw new TypeError("keySet: expected an https URL without a user, or an http URL of this machine");
  }
  if (!isText(issuer, 128)) throw new TypeError("issuer: expected 1 to 128 printable ASCII characters without spaces");
  if (!isText(tenant)) throw new TypeError("tenant: expected the UUID of the tenant");

  let keys: Map<string, CryptoKey> | undefined;
  let fetched = 0; // milliseconds since 1970, like the others
  let fresh = 0;
  let tried = -Infinity;
  let failed: unknown;
  let running: Promise<void> | undefined;

  async function refresh(): Promise<void> {
    const at = (tried = now());
    try {
      const headers = { Accept: "application/jwk-set+json, application/json", "Cache-Control": "no-cache" };
      const response = await fetch(url.href, { headers, redirect: "manual", signal: AbortSignal.timeout(fetchTime) });
      if (response.status !== 200) throw new Error(`status ${response.status}`);
      keys = await parseKeys(await readBody(response));
      [fetched, fresh, failed] = [at, at + freshness(response.headers), undefined];
    } catch (e) {
      failed = e;
    } finally {
      running = undefined;
    }
  }

  async function find(keyId: string): Promise<CryptoKey> {
    const at = now();
    if (!keys?.has(keyId) || at >= fresh || at < fetched) {
      if (running || at - tried >= fetchPause || at < tried) await (running ??= refresh());
    }
    if (!keys || now() >= fetched + maxStale) throw new HandoffTokenError("no-key-set", "the key set is not available", { cause: failed });
    const key = keys.get(keyId);
    if (!key) throw new HandoffTokenError("unknown-key", "the token is signed with a key that is unknown or no longer valid");
    return key;
  }

  return {
    async verify(text) {
      const token = parse(text);
      const key = await find(token.keyId);
      if (!(await crypto.subtle.verify({ name: "Ed25519" }, key, token.signature, token.signed))) {
        throw new HandoffTokenError("signature", "the signature of the token is wrong");
      }
      const payload = parseObject(decode(token.payload));
      if (payload === undefined) throw malformed();
      const claims = read(payload, token.keyId);
      if (payload["iss"] !== issuer) throw new HandoffTokenError("issuer", "the token is from another issuer");
      if (claims.tenantId !== tenant) throw new HandoffTokenError("tenant", "the token is for another tenant");
      const at = now();
      if (claims.mintedAt.getTime() > at + leeway * 1000) throw new HandoffTokenError("not-yet-valid", "the token was minted in the future; check the clock");
      if (at >= claims.expiresAt.getTime()) throw new HandoffTokenError("expired", "the token has expired");
      return claims;
    },
  };
}
