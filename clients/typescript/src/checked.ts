/** In a Unicode pattern, a pair of surrogates is one character, of another category. */
const unpaired = /\p{Cs}/u;

/** Throws a RangeError if JSON cannot carry a text or number: JSON.stringify writes null for NaN, and URLs get U+FFFD for half a pair. */
export function checkScalar(place: string, value: unknown): void {
  const v = value instanceof Number || value instanceof String ? value.valueOf() : value;
  if (typeof v === "string" && unpaired.test(v)) {
    throw new RangeError(`${place}: unpaired surrogate: expected well-formed Unicode`);
  }
  if (typeof v === "number" && !Number.isFinite(v)) {
    throw new RangeError(`${place}: ${v}: expected a finite number, because JSON has no ${v}`);
  }
}

/** Encodes a request's body. Throws a RangeError, with a JSON pointer to the place, if a part cannot be sent as it is. */
export function encode(body: unknown, stringify: (value: unknown) => string): string {
  const own = stringify !== JSON.stringify;
  const places = new Map<unknown, string>();
  try {
    const text = JSON.stringify(body, function (this: unknown, name: string, value: unknown) {
      const parent = places.get(this); // undefined for the object around the body
      if (unpaired.test(name)) {
        throw new RangeError(`${parent || "body"}: unpaired surrogate in the name of a member: expected well-formed Unicode`);
      }
      const place = parent === undefined ? "" : `${parent}/${name.replace(/~/g, "~0").replace(/\//g, "~1")}`;
      checkScalar(place || "body", value);
      places.set(value, place);
      return own && typeof value === "bigint" ? null : value; // JSON.stringify refuses it, and another function may not
    });
    return own ? stringify(body) : text;
  } catch (e) {
    // fetch throws a TypeError for a lost connection, so an error before the request must be another.
    throw e instanceof RangeError ? e : new RangeError(`body: not JSON: ${e instanceof Error ? e.message : e}`, { cause: e });
  }
}
