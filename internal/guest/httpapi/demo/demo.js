'use strict';
// The demo of the guest service: search, hotel, wishlist, handoff and its arrival.
const api = '../bff/consumer/v1'; // relative, so that the server may have a prefix
const $ = id => document.getElementById(id);
let next = null; // the following page of the search: its ID and number

// key returns a new idempotency key.
const key = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), b => b.toString(16).padStart(2, '0')).join('');

// call sends a request and returns its answer; an error has the code of the problem. What may succeed later is sent
// again: all requests are safe to repeat.
async function call(method, path, body, headers = {}) {
  const init = { method, headers: { ...headers } };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers['Content-Type'] = 'application/json';
  }
  for (const end = Date.now() + 40_000; ;) {
    const response = await fetch(path, init);
    const text = await response.text();
    const answer = text ? JSON.parse(text) : null;
    if (response.ok) return answer;
    const wait = 1000 * (Number(response.headers.get('Retry-After')) || 1);
    if (!answer?.retriable || Date.now() + wait > end) {
      const problem = answer?.error ?? answer; // nested with guest.nested_errors
      throw Object.assign(new Error(problem?.detail ?? response.statusText), { code: problem?.code, challenge: problem?.challenge });
    }
    say('One moment, please');
    await new Promise(done => setTimeout(done, wait));
  }
}

// change sends a change. A browser without a session gets one first; one that is taken for a bot solves a challenge.
async function change(method, path, body) {
  const headers = { 'Idempotency-Key': key() };
  for (const tried = new Set(); ;) {
    try {
      return await call(method, api + path, body, headers);
    } catch (e) {
      if (tried.has(e.code)) throw e;
      tried.add(e.code);
      if (e.code === 'session-required') await call('POST', api + '/session');
      else if (e.challenge) headers['X-Challenge-Token'] = await solveChallenge(e.challenge);
      else throw e;
    }
  }
}

function say(text) { $('status').textContent = text; }

// guarded runs a function for an event and says what went wrong.
function guarded(fn) {
  return async event => {
    event?.preventDefault?.();
    try {
      say('');
      await fn(event);
    } catch (e) {
      say(e.code === 'session-required' ? 'Your browser blocks cookies: the wishlist and booking need them.' : e.message);
    }
  };
}

// element makes an element with a text, attributes, and children.
function element(name, text, attributes = {}, ...children) {
  const e = document.createElement(name);
  if (text) e.textContent = text;
  for (const [k, v] of Object.entries(attributes)) typeof v === 'function' ? e.addEventListener(k, v) : e.setAttribute(k, v);
  e.append(...children);
  return e;
}

// price formats an amount in the smallest unit of a currency.
function price(minor, currency) {
  if (!minor) return 'price unknown';
  const format = new Intl.NumberFormat(navigator.language, { style: 'currency', currency });
  return format.format(Number(minor) / 10 ** format.resolvedOptions().maximumFractionDigits);
}

function listing(h) {
  const total = h.totalForStayMinor ? `, ${price(h.totalForStayMinor, h.currency)} for the stay` : '';
  return element('li', '', {},
    element('h3', '', {}, element('a', h.name, { href: '#hotel/' + h.propertyId })),
    element('p', `${h.city}, ${h.stars} stars, rated ${h.rating} of 10. From ${price(h.cheapestNightlyMinor, h.currency)} a night${total}.`));
}

function showResults(found) {
  $('results').append(...found.items.map(listing));
  next = found.nextPage && { id: found.searchId, page: found.nextPage };
  $('more').hidden = !next;
  say(`${found.total} ${found.total === 1 ? 'hotel' : 'hotels'} found`);
}

function query() {
  const values = Object.fromEntries([...new FormData($('form'))].filter(([, v]) => v !== ''));
  if (values.adults) values.adults = Number(values.adults);
  return values;
}

const search = guarded(async () => {
  const found = await call('POST', api + '/search', query());
  $('results').replaceChildren();
  showResults(found);
});

const more = guarded(async () => showResults(await call('GET', `${api}/search/${next.id}?page=${next.page}`)));

// title gives a page a heading.
function title(heading, text) {
  heading.textContent = text;
  document.title = text + ' – Holdfast guest demo';
}

async function showHotel(id) {
  $('hotel').replaceChildren();
  const h = await call('GET', `${api}/hotels/${encodeURIComponent(id)}`);
  const brand = await call('GET', `${api}/brands/${h.tenantId}/peek`);
  title($('title-hotel'), h.name);
  $('hotel').replaceChildren(
    element('p', h.description), element('p', `${h.address}. A hotel of ${brand.name}: ${brand.tagline}`),
    element('p', 'It has: ' + h.amenities.join(', ')), element('p', `From ${price(h.cheapestNightlyMinor, h.currency)} a night.`),
    element('button', 'Add to wishlist', { id: 'add', click: guarded(() => add(h)) }), ' ',
    element('button', 'Book', { id: 'book', click: guarded(() => book(h)) }));
}

async function add(h) {
  await change('POST', '/wishlist', { tenantId: h.tenantId, propertyId: h.propertyId, source: 'detail' });
  say(h.name + ' is on the wishlist');
}

async function showWishes() {
  const page = await call('GET', api + '/wishlist?limit=100');
  $('wishes').replaceChildren();
  if (page.items.length === 0) say('The wishlist is empty');
  for (const w of page.items) {
    let name = w.propertyId;
    try {
      name = (await call('GET', `${api}/hotels/${w.propertyId}`)).name;
    } catch { /* it is not in the catalogue any more */ }
    const item = element('li', '', {}, element('a', name, { href: '#hotel/' + w.propertyId }), ' ',
      element('button', 'Remove', { 'aria-label': 'Remove ' + name, click: guarded(async () => {
        await change('DELETE', '/wishlist/' + w.propertyId);
        item.remove();
        $('main').focus(); // the button that had it is gone
        say(name + ' was removed');
      }) }));
    $('wishes').append(item);
  }
}

// day returns the date in some days.
const day = n => new Date(Date.now() + n * 864e5).toISOString().slice(0, 10);

// book hands the guest over to the booking site of the hotel.
async function book(h) {
  const q = query();
  const stay = { checkIn: q.checkIn ?? day(30), checkOut: q.checkOut ?? day(32), adults: q.adults ?? 2, children: 0, currency: h.currency, locale: h.locale };
  const minted = await change('POST', `/handoff/${h.tenantId}/${h.propertyId}`, stay);
  location.hash = `arrival/${minted.handoffId}/${minted.token}`;
}

// arrive gives the handoff to the server of the booking site, which consumes it.
async function arrive(id, token, attempt) {
  const stay = await call('POST', 'demo/arrivals', { handoffId: id, token, attempt });
  $('arrival').replaceChildren(
    element('p', `Welcome. Your stay: ${stay.checkIn} to ${stay.checkOut}, ${stay.adults} adults.`, { id: 'welcome' }),
    element('button', 'Use the handoff again', { id: 'again', click: guarded(() => arrive(id, token, key())) }));
}

// show shows the page that the fragment of the URL names.
const show = guarded(async () => {
  const [page, ...rest] = (location.hash.slice(1) || 'search').split('/');
  const section = $('page-' + page) ?? $('page-search');
  for (const s of document.querySelectorAll('main > section')) s.hidden = s !== section;
  for (const a of document.querySelectorAll('nav a')) a.hash === '#' + page ? a.setAttribute('aria-current', 'page') : a.removeAttribute('aria-current');
  title(section.querySelector('h2'), section.dataset.title);
  if (page === 'hotel') await showHotel(rest[0]);
  if (page === 'wishlist') await showWishes();
  if (page === 'arrival') await arrive(rest[0], rest[1], 'first');
});

$('form').addEventListener('submit', search);
$('more').addEventListener('click', more);
$('skip').addEventListener('click', event => { event.preventDefault(); $('main').focus(); }); // the fragment names the page
addEventListener('hashchange', () => { show(); $('main').focus(); });
show();
