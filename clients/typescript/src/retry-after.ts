/** Returns the seconds in a Retry-After header, a number or a date (RFC 9110, section 10.2.3), or undefined. */
export function secondsUntil(header: string): number | undefined {
  if (/^\d+$/.test(header)) {
    return Number(header);
  }
  const at = header.endsWith(" GMT") ? Date.parse(header) : NaN;
  return Number.isNaN(at) ? undefined : Math.max(0, Math.ceil((at - Date.now()) / 1000));
}
