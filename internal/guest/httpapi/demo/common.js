'use strict';
// Shared by the hotel site and the booking site: requests, elements, formats.
const here = new URL('.', document.currentScript.src); // the server may have a prefix
const api = new URL('../../bff/consumer/v1', here).pathname;
const $ = id => document.getElementById(id);
const observers = []; // called with each request and its response headers

// key returns a new idempotency key.
const key = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), b => b.toString(16).padStart(2, '0')).join('');

// call sends a request and returns its answer; an error contains the problem's code. It retries temporary errors: all
// requests are safe to repeat.
async function call(method, path, body, headers = {}) {
  const init = { method, headers: { ...headers }, cache: 'no-cache' };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers['Content-Type'] = 'application/json';
  }
  for (const end = Date.now() + 40_000; ;) {
    const response = await fetch(path, init);
    const text = await response.text();
    const answer = text ? JSON.parse(text) : null;
    for (const observe of observers) observe({ method, path, body, headers: init.headers, response, answer });
    if (response.ok) return answer;
    const wait = 1000 * (Number(response.headers.get('Retry-After')) || 1);
    if (!answer?.retriable || Date.now() + wait > end) {
      const problem = answer?.error ?? answer; // nested with guest.nested_errors
      throw Object.assign(new Error(problem?.detail ?? response.statusText), { code: problem?.code, challenge: problem?.challenge, status: response.status });
    }
    say('One moment, please');
    await new Promise(done => setTimeout(done, wait));
  }
}

function say(text) { $('status').textContent = text; }

// guarded wraps an event handler and shows its error.
function guarded(fn) {
  return async event => {
    event?.preventDefault?.();
    try {
      say('');
      await fn(event);
    } catch (e) {
      say(e.code === 'session-required' ? 'Your browser blocks cookies: the wishlist and booking need them. Search works without.'
        : e.code === 'tenant-suspended' ? 'This hotel cannot be booked now: it is suspended.' : e.message);
    }
  };
}

// element creates an element with a text, attributes, and children.
function element(name, text, attributes = {}, ...children) {
  const e = document.createElement(name);
  if (text) e.textContent = text;
  for (const [k, v] of Object.entries(attributes)) typeof v === 'function' ? e.addEventListener(k, v) : e.setAttribute(k, v);
  e.append(...children);
  return e;
}

// price formats an amount in a currency's smallest unit.
function price(minor, currency) {
  if (!minor) return 'price unknown';
  const format = new Intl.NumberFormat(navigator.language, { style: 'currency', currency });
  const amount = Number(minor) / 10 ** format.resolvedOptions().maximumFractionDigits;
  return new Intl.NumberFormat(navigator.language, { style: 'currency', currency, maximumFractionDigits: 0 }).format(amount);
}

// dates formats the days of a stay.
const dates = (from, to) => new Intl.DateTimeFormat(navigator.language, { weekday: 'short', day: 'numeric', month: 'short', timeZone: 'UTC' }).formatRange(new Date(from), new Date(to));
const nights = (from, to) => Math.max(1, Math.round((new Date(to) - new Date(from)) / 864e5));
const count = (n, one, many = one + 's') => `${n} ${n === 1 ? one : many}`;

// variant returns a stable number for a hotel.
const variant = (id, most) => parseInt(id.slice(-4), 16) % most;
const picture = name => new URL(`pictures/${name}.svg`, here).href;
const facade = h => picture(`${h.region}-${variant(h.propertyId, 3)}`);

const tabs = new BroadcastChannel('holdfast-guest-demo'); // tells other tabs that something changed
