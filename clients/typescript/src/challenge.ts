import { pause } from "./send.js";

const primes: number[] = [];
for (let n = 2; primes.length < 64; n++) {
  if (primes.every((p) => n % p !== 0)) {
    primes.push(n);
  }
}
const fraction = (x: number): number => ((x % 1) * 2 ** 32) | 0;
const constants = Int32Array.from(primes, (p) => fraction(Math.cbrt(p)));
const initial = Int32Array.from(primes.slice(0, 8), (p) => fraction(Math.sqrt(p)));
const rotate = (x: number, n: number): number => (x >>> n) | (x << (32 - n));

/**
 * Returns the number of leading zero bits in the SHA-256 of an ASCII text, at most 32. crypto.subtle is missing on pages without TLS,
 * and slower for short texts.
 */
function leadingZeros(text: string): number {
  const n = text.length;
  const words = new Int32Array((((n + 8) >> 6) + 1) * 16);
  for (let i = 0; i <= n; i++) {
    words[i >> 2]! |= (i < n ? text.charCodeAt(i) : 0x80) << (24 - 8 * (i & 3));
  }
  words[words.length - 1] = 8 * n;
  const sum = initial.slice();
  const w = new Int32Array(64);
  for (let at = 0; at < words.length; at += 16) {
    w.set(words.subarray(at, at + 16));
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15]!;
      const y = w[i - 2]!;
      w[i] = w[i - 16]! + (rotate(x, 7) ^ rotate(x, 18) ^ (x >>> 3)) + w[i - 7]! + (rotate(y, 17) ^ rotate(y, 19) ^ (y >>> 10));
    }
    let [a, b, c, d, e, f, g, h] = sum as unknown as [number, number, number, number, number, number, number, number];
    for (let i = 0; i < 64; i++) {
      const t1 = (h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + constants[i]! + w[i]!) | 0;
      const t2 = ((rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + t1) | 0;
      d = c;
      c = b;
      b = a;
      a = (t1 + t2) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((x, i) => (sum[i]! += x));
  }
  return Math.clz32(sum[0]!);
}

/** Solves a challenge, and yields to the page every few milliseconds. */
export async function solve({ text, bits }: { text: string; bits: number }, signal: AbortSignal | undefined): Promise<string> {
  for (let n = 0; ; n++) {
    if (n % 4096 === 4095) {
      await pause(0, signal);
    }
    const solution = `${text}.${n}`;
    if (leadingZeros(solution) >= bits) {
      return solution;
    }
  }
}
