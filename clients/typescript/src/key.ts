/**
 * Returns a unique idempotency key. It need not be secret: Node 18 has no globalThis.crypto. Pages without TLS have no
 * crypto.randomUUID.
 */
export function newKey(): string {
  const bytes = new Uint8Array(16);
  if (globalThis.crypto) {
    crypto.getRandomValues(bytes);
  } else {
    bytes.forEach((_, i) => (bytes[i] = Math.random() * 256));
  }
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}
