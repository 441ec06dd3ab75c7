'use strict';
// The hotel site: search, hotel, wishlist, and the handoff to the booking site.
const cities = [ // region, country, name, latitude, longitude
  ['vienna', 'AT', 'Vienna', 48.2082, 16.3738], ['salzburg', 'AT', 'Salzburg', 47.8095, 13.0550], ['tyrol', 'AT', 'Innsbruck', 47.2692, 11.4041],
  ['zurich', 'CH', 'Zurich', 47.3769, 8.5417], ['geneva', 'CH', 'Geneva', 46.2044, 6.1432], ['prague', 'CZ', 'Prague', 50.0755, 14.4378],
  ['berlin', 'DE', 'Berlin', 52.5200, 13.4050], ['bavaria', 'DE', 'Munich', 48.1351, 11.5820], ['hamburg', 'DE', 'Hamburg', 53.5511, 9.9937],
  ['copenhagen', 'DK', 'Copenhagen', 55.6761, 12.5683], ['catalonia', 'ES', 'Barcelona', 41.3874, 2.1686], ['paris', 'FR', 'Paris', 48.8566, 2.3522],
  ['london', 'GB', 'London', 51.5072, -0.1276], ['lazio', 'IT', 'Rome', 41.9028, 12.4964], ['veneto', 'IT', 'Venice', 45.4408, 12.3155], ['lisbon', 'PT', 'Lisbon', 38.7223, -9.1393],
];
const amenities = { breakfast: 'Breakfast', pool: 'Pool', spa: 'Spa', gym: 'Gym', parking: 'Parking', pets: 'Pets welcome', wheelchair: 'Wheelchair access', wifi: 'Wi-Fi' };
const reach = 0.0425; // map radius in degrees
let next = null; // next page of the search: its ID and number
let wishes = new Map(); // by property

// change sends a change. It first starts a session if necessary, and solves a challenge if the server suspects a bot.
async function change(method, path, body) {
  const headers = { 'Idempotency-Key': key() };
  for (const tried = new Set(); ;) {
    try {
      const answer = await call(method, api + path, body, headers);
      tabs.postMessage('changed');
      return answer;
    } catch (e) {
      if (tried.has(e.code)) throw e;
      tried.add(e.code);
      if (e.code === 'session-required') await call('POST', api + '/session');
      else if (e.challenge) headers['X-Challenge-Token'] = await solveChallenge(e.challenge);
      else throw e;
    }
  }
}

// rating describes a rating in words.
const rating = n => n >= 9 ? 'Wonderful' : n >= 8 ? 'Very good' : n >= 7 ? 'Good' : 'Pleasant';
const stars = n => element('span', '★'.repeat(n), { class: 'stars', role: 'img', 'aria-label': count(n, 'star') });

// heart returns a button that adds a hotel to the wishlist, or removes it.
function heart(h, attributes = {}) {
  const button = element('button', '', { class: 'heart', 'data-hotel': h.propertyId, 'aria-label': 'Wishlist: ' + h.name, ...attributes, click: guarded(async () => {
    if (wishes.has(h.propertyId)) {
      await change('DELETE', '/wishlist/' + h.propertyId);
      say(h.name + ' was removed');
    } else {
      await change('POST', '/wishlist', { tenantId: h.tenantId, propertyId: h.propertyId, source: attributes.id ? 'detail' : 'list' });
      say(h.name + ' is on the wishlist');
    }
    await loadWishes();
  }) }, element('span', '', { 'aria-hidden': 'true' }));
  return showHeart(button);
}

function showHeart(button) {
  const on = wishes.has(button.dataset.hotel);
  button.setAttribute('aria-pressed', on);
  button.firstChild.textContent = on ? '♥' : '♡';
  return button;
}

// loadWishes reads the wishlist and updates all hearts.
async function loadWishes() {
  const { items } = await call('GET', api + '/wishlist?limit=100');
  wishes = new Map(items.map(w => [w.propertyId, w]));
  $('hearts').textContent = wishes.size;
  $('hearts').hidden = wishes.size === 0;
  for (const b of document.querySelectorAll('.heart')) showHeart(b);
  if (!$('page-wishlist').hidden) await showWishes();
}

function card(h, ...below) {
  const stay = query();
  return element('li', '', { class: 'card' },
    element('img', '', { src: facade(h), alt: '', loading: 'lazy', width: 640, height: 420, class: variant(h.propertyId, 6) > 2 ? 'mirrored' : '' }), heart(h),
    element('div', '', { class: 'text' },
      element('h3', '', {}, element('a', h.name, { href: '#hotel/' + h.propertyId })), element('p', '', { class: 'where' }, stars(h.stars), ' ' + h.city),
      element('p', '', { class: 'rated' }, element('b', h.rating.toFixed(1)), ` ${rating(h.rating)}`, h.amenities?.includes('breakfast') ? element('span', 'Breakfast', { class: 'tag' }) : ''),
      element('p', '', { class: 'price' }, element('b', price(h.totalForStayMinor || h.cheapestNightlyMinor, h.currency)),
        h.totalForStayMinor ? ` for ${count(nights(stay.checkIn, stay.checkOut), 'night')}` : ' a night'),
      ...below));
}

function showResults(found) {
  $('results').append(...found.items.map(h => card(h)));
  next = found.nextPage && { id: found.searchId, page: found.nextPage };
  $('more').hidden = !next;
  const q = query();
  $('found').textContent = `${count(found.total, 'hotel')}${q.region ? ' in ' + cityOf(q.region)[2] : ''}, ${dates(q.checkIn, q.checkOut)}`;
  say(`${count(found.total, 'hotel')} found`);
}

const cityOf = region => cities.find(c => c[0] === region);

// query returns the form's search query.
function query() {
  const data = new FormData($('form')), q = { pageSize: 12 };
  for (const name of ['checkIn', 'checkOut', 'text', 'sort']) if (data.get(name)) q[name] = data.get(name);
  for (const name of ['adults', 'minStars']) if (data.get(name)) q[name] = Number(data.get(name));
  if (data.get('most')) Object.assign(q, { maxNightlyMinor: data.get('most'), currency: 'EUR' });
  if (data.getAll('amenity').length) q.amenities = data.getAll('amenity');
  if (data.get('city')) [q.region, q.country] = cityOf(data.get('city'));
  return q;
}

const search = guarded(async () => {
  const q = query();
  $('results').setAttribute('aria-busy', 'true');
  try {
    const found = await call('POST', api + '/search', q);
    $('results').replaceChildren();
    showResults(found);
    await showMap(q);
    if (!$('status').textContent) say(`${count(found.total, 'hotel')} found`);
  } finally {
    $('results').removeAttribute('aria-busy');
  }
});

const more = guarded(async () => showResults(await call('GET', `${api}/search/${next.id}?page=${next.page}`)));

// showMap shows a pin with the price for each result.
async function showMap(q) {
  $('map').hidden = !q.region;
  $('hero').className = 'hero hero-' + (q.region || 'vienna');
  if (!q.region) return;
  const [, , , latitude, longitude] = cityOf(q.region);
  $('map-base').src = picture(q.region + '-map');
  const { sort, pageSize, ...rest } = q;
  const found = await call('POST', api + '/search/map', rest);
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 600 600');
  svg.append(...found.items.map(p => pin(p, 300 + 300 * (p.longitude - longitude) / reach, 300 - 300 * (p.latitude - latitude) / reach)));
  $('pins').replaceChildren(svg);
}

function pin(p, x, y) {
  const make = (name, attributes, ...children) => {
    const e = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    e.append(...children);
    return e;
  };
  const text = price(p.cheapestNightlyMinor, p.currency), width = 14 + 10 * text.length;
  x = Math.min(Math.max(x, width / 2 + 4), 596 - width / 2);
  y = Math.min(Math.max(y, 34), 590);
  return make('a', { href: '#hotel/' + p.propertyId, class: 'pin', 'aria-label': `${p.name}, ${text}` },
    make('title', {}, p.name), make('path', { d: `M${x - 6} ${y - 8}l6 8l6 -8z` }), make('rect', { x: x - width / 2, y: y - 34, width, height: 27, rx: 13 }),
    make('text', { x, y: y - 15, 'text-anchor': 'middle' }, text));
}

// title gives a page a heading.
function title(heading, text) {
  heading.textContent = text;
  document.title = text + ' – Holdfast guest demo';
}

async function showHotel(id) {
  $('hotel').replaceChildren();
  const q = query();
  const [h, offers] = await Promise.all([
    call('GET', `${api}/hotels/${encodeURIComponent(id)}`),
    call('GET', `${api}/hotels/${encodeURIComponent(id)}/availability?from=${q.checkIn}&to=${q.checkOut}&adults=${q.adults ?? 2}`)]);
  const brand = await call('GET', `${api}/brands/${h.tenantId}/peek`);
  title($('title-hotel'), h.name);
  const ways = ['a', 'b'][variant(h.propertyId, 2)];
  const shots = [[facade(h), `${h.name} in ${h.city}`], [picture('double-' + ways), 'Double room'], [picture('lobby'), 'Lobby'], [picture('suite-' + ways), 'Suite']];
  for (const a of ['breakfast', 'pool', 'spa']) if (h.amenities.includes(a)) shots.push([picture(a), amenities[a]]);
  const large = element('img', '', { src: shots[0][0], alt: shots[0][1], width: 640, height: 420 });
  const thumbs = shots.map(([src, alt], i) => element('button', '', { 'aria-label': 'Show ' + alt, 'aria-pressed': i === 0, click: event => {
    Object.assign(large, { src, alt });
    for (const b of thumbs) b.setAttribute('aria-pressed', b === event.currentTarget);
  } }, element('img', '', { src, alt: '', width: 640, height: 420 })));
  drawer.hotel = { tenantId: h.tenantId, propertyId: h.propertyId, name: h.name, brand: brand.name };
  $('hotel').replaceChildren(
    element('p', '', { class: 'where' }, stars(h.stars), ` ${h.address}`),
    element('div', '', { class: 'gallery' }, large, element('div', '', { class: 'thumbs' }, ...thumbs)),
    element('div', '', { class: 'columns' },
      element('div', '', {},
        element('p', '', { class: 'rated' }, element('b', h.rating.toFixed(1)), ` ${rating(h.rating)}, ${count(h.reviews, 'review')}`),
        element('p', h.description), element('p', `Check-in from ${h.checkInFrom}, check-out until ${h.checkOutUntil}. A hotel of ${brand.name}: ${brand.tagline}`),
        element('h2', 'Amenities'), element('ul', '', { class: 'amenities' }, ...h.amenities.map(a => element('li', amenities[a] ?? a, { class: 'has-' + a }))),
        element('h2', 'Rooms'), element('ul', '', { class: 'rooms' }, ...h.roomTypes.map(r => room(h, r, offers, ways)))),
      reserve(h, offers, q)));
  drawer.update();
}

function room(h, r, offers, ways) {
  const offer = offers.offers?.find(o => o.roomType === r.code);
  return element('li', '', {}, element('img', '', { src: picture(`${r.code}-${ways}`), alt: '', width: 640, height: 420, loading: 'lazy' }),
    element('div', '', {}, element('h3', r.name), element('p', `Sleeps ${r.sleeps}`), offer
      ? element('p', '', { class: 'price' }, element('b', price(offer.totalForStayMinor, offers.currency)), offer.left < 4 ? element('span', `Only ${offer.left} left`, { class: 'few' }) : '')
      : element('p', 'Not free on these days')),
    offer ? element('button', 'Book', { 'aria-label': 'Book: ' + r.name, click: guarded(() => book(h)) }) : '');
}

// reserve returns the box with the price of the stay.
function reserve(h, offers, q) {
  return element('div', '', { class: 'reserve' },
    offers.available ? element('p', '', { class: 'price' }, element('b', price(offers.totalForStayMinor, offers.currency)), ` for ${count(nights(q.checkIn, q.checkOut), 'night')}`)
      : element('p', 'No room is free on these days.'),
    element('p', `${dates(q.checkIn, q.checkOut)}, ${count(q.adults ?? 2, 'adult')}`),
    element('button', 'Book with the hotel', { id: 'book', class: 'primary', click: guarded(() => book(h)) }), heart(h, { id: 'add' }),
    element('p', 'You finish on the site of the hotel, which gets your stay in a signed handoff.', { class: 'small' }));
}

async function showWishes() {
  const items = [...wishes.values()];
  const cards = await Promise.all(items.map(async w => {
    try {
      const h = await call('GET', `${api}/hotels/${w.propertyId}`);
      return card(h, note(w, h));
    } catch { // suspended, or not in the catalogue any more
      return element('li', '', { class: 'card gone' }, element('div', '', { class: 'text' }, element('h3', 'Not available now'), element('p', w.note ?? ''),
        element('button', 'Remove', { click: guarded(async () => { await change('DELETE', '/wishlist/' + w.propertyId); await loadWishes(); }) })));
    }
  }));
  const typing = document.activeElement?.closest?.('#wishes textarea');
  if (typing && typing.value !== typing.defaultValue) return; // another tab must not interrupt
  $('wishes').replaceChildren(...cards);
  $('no-wishes').hidden = items.length > 0;
}

// note returns the form for a wish's note.
function note(w, h) {
  const text = element('textarea', w.note ?? '', { rows: 2, maxlength: 280, 'aria-label': 'Note: ' + h.name, placeholder: 'A note for yourself' });
  return element('form', '', { class: 'note', submit: guarded(async () => {
    await change('PATCH', '/wishlist/' + w.propertyId, { note: text.value });
    text.defaultValue = text.value;
    say('The note was saved');
  }) }, text, element('button', 'Save note'),
  element('button', 'Remove', { type: 'button', class: 'remove', 'aria-label': 'Remove ' + h.name, click: guarded(async () => {
    await change('DELETE', '/wishlist/' + w.propertyId);
    $('main').focus(); // its focused button was removed
    await loadWishes();
    say(h.name + ' was removed');
  }) }));
}

// day returns the date in n days.
const day = n => new Date(Date.now() + n * 864e5).toISOString().slice(0, 10);

// book mints a handoff and opens the hotel's booking site.
async function book(h) {
  const q = query();
  const stay = { checkIn: q.checkIn, checkOut: q.checkOut, adults: q.adults ?? 2, children: 0, currency: h.currency, locale: h.locale };
  const minted = await change('POST', `/handoff/${h.tenantId}/${h.propertyId}`, stay);
  location.assign(`${minted.redirectUrl}/${minted.handoffId}`);
}

// show shows the page named in the URL fragment.
const show = guarded(async () => {
  const [page, ...rest] = (location.hash.slice(1) || 'search').split('/');
  const section = $('page-' + page) ?? $('page-search');
  for (const s of document.querySelectorAll('main > section')) s.hidden = s !== section;
  for (const a of document.querySelectorAll('nav a')) a.hash === '#' + page ? a.setAttribute('aria-current', 'page') : a.removeAttribute('aria-current');
  title(section.querySelector('h1'), section.dataset.title);
  drawer.hotel = null;
  if (page === 'hotel') await showHotel(rest[0]);
  if (page === 'wishlist') {
    await call('GET', api + '/session'); // fails if cookies are blocked
    await loadWishes();
  }
  drawer.update();
});

// begin fills in the form and shows results.
async function begin() {
  const form = $('form');
  form.city.append(...cities.map(([region, , name]) => new Option(name, region)), new Option('All cities', ''));
  if (matchMedia('(max-width: 860px), (min-width: 1100px) and (max-width: 1300px)').matches) $('filters').open = false; // hotels come first
  $('chips').append(...Object.entries(amenities).slice(0, 6).map(([name, text]) =>
    element('label', '', { class: 'chip' }, element('input', '', { type: 'checkbox', name: 'amenity', value: name }), text)));
  const friday = 14 + (5 - new Date(Date.now() + 14 * 864e5).getUTCDay() + 7) % 7;
  Object.assign(form.checkIn, { value: day(friday), min: day(0), max: day(365) });
  Object.assign(form.checkOut, { value: day(friday + 3), min: day(1), max: day(400) });
  form.checkIn.addEventListener('change', () => {
    if (form.checkOut.value > form.checkIn.value || !form.checkIn.value) return;
    form.checkOut.value = new Date(new Date(form.checkIn.value).getTime() + 3 * 864e5).toISOString().slice(0, 10);
  });
  form.addEventListener('submit', search);
  form.addEventListener('change', event => { if (form.checkValidity() && event.target.name !== 'text') search(event); });
  $('frame').hidden = false;
  $('more').addEventListener('click', more);
  $('skip').addEventListener('click', event => { event.preventDefault(); $('main').focus(); }); // the fragment names the page
  addEventListener('hashchange', () => { show(); $('main').focus(); scrollTo(0, 0); });
  tabs.addEventListener('message', guarded(loadWishes));
  await search();
  await guarded(loadWishes)();
  if (location.hash.length > 1) await show();
}
addEventListener('DOMContentLoaded', begin); // after drawer.js
