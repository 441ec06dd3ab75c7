'use strict';
// Solves challenges of the guest service. It implements SHA-256 because crypto.subtle is missing on pages without TLS,
// and slower for short texts.
const solveChallenge = (() => {
  const primes = [];
  for (let n = 2; primes.length < 64; n++) if (primes.every(p => n % p)) primes.push(n);
  const fraction = x => (x % 1) * 2 ** 32 | 0;
  const K = Int32Array.from(primes, p => fraction(Math.cbrt(p))), H = Int32Array.from(primes.slice(0, 8), p => fraction(Math.sqrt(p)));
  const w = new Int32Array(64), rotate = (x, n) => x >>> n | x << 32 - n;

  // zeros returns the number of leading zero bits in the SHA-256 of an ASCII text, at most 32.
  function zeros(text) {
    const n = text.length, words = new Int32Array(((n + 8 >> 6) + 1) * 16);
    for (let i = 0; i <= n; i++) words[i >> 2] |= (i < n ? text.charCodeAt(i) : 0x80) << 24 - 8 * (i & 3);
    words[words.length - 1] = 8 * n;
    const h = H.slice();
    for (let at = 0; at < words.length; at += 16) {
      let a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], k = h[7];
      for (let i = 0; i < 64; i++) {
        if (i < 16) w[i] = words[at + i];
        else {
          const x = w[i - 15], y = w[i - 2];
          w[i] = w[i - 16] + (rotate(x, 7) ^ rotate(x, 18) ^ x >>> 3) + w[i - 7] + (rotate(y, 17) ^ rotate(y, 19) ^ y >>> 10);
        }
        const t1 = k + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + (e & f ^ ~e & g) + K[i] + w[i] | 0;
        const t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + (a & b ^ a & c ^ b & c) | 0;
        k = g; g = f; f = e; e = d + t1 | 0; d = c; c = b; b = a; a = t1 + t2 | 0;
      }
      h[0] += a; h[1] += b; h[2] += c; h[3] += d; h[4] += e; h[5] += f; h[6] += g; h[7] += k;
    }
    return Math.clz32(h[0]);
  }

  // Yields to the page every few milliseconds.
  return async ({ text, bits }) => {
    for (let n = 0; ; n++) {
      if (n % 4096 === 4095) await new Promise(done => setTimeout(done));
      if (zeros(`${text}.${n}`) >= bits) return `${text}.${n}`;
    }
  };
})();
