'use strict';
// The drawer next to the pages shows the server's work live. It polls while it is open and its tab is visible.
const drawer = (() => {
  const every = 3000, kept = 30;
  const box = $('drawer'), toggle = $('drawer-toggle'), live = new URL('live', here).pathname;
  const parts = {}, caches = new Map();
  let last = '', timer = 0, again = null, busy = false, ends = [];
  const self = { hotel: null, token: false, update };

  const section = (name, title, ...children) => parts[name] = element('section', '', { class: 'part', id: 'live-' + name }, element('h2', title), ...children);
  const fact = (name, value) => [element('dt', name), element('dd', value)];
  const time = t => new Date(t).toLocaleTimeString();

  function build() {
    const events = element('ol', '', { id: 'events' });
    box.append(
      element('p', 'This server sees the same requests as the site. Everything below is yours only.', { class: 'small' }),
      section('session', 'Session', element('dl', '', { id: 'session' })),
      section('cache', 'Cache', element('dl', '', { id: 'caches' })),
      section('try', 'Try it',
        button('replay', 'Repeat the last change', replay, 'Sends the same request with the same idempotency key.'),
        button('reuse', 'Use the token again', reuse, 'Another attempt with the consumed handoff token.'),
        button('lose', 'Lose the hot state', lose, 'Drops your session, lists and wishlist copy from memory or Redis.'),
        button('suspend', 'Suspend this hotel', suspend, 'Suspends the brand of the hotel for a minute.'),
        element('p', '', { id: 'tried', role: 'status' })),
      section('events', 'Events', element('p', 'Each is committed with its change, then published.', { class: 'small' }), events));
  }

  const button = (id, text, fn, why) => element('div', '', { class: 'action' }, element('button', text, { id, 'aria-describedby': id + '-why', click: async () => {
    try { await fn(); } catch (e) { tell(`${e.status ?? ''} ${e.code ?? ''}: ${e.message}`); }
    await update();
  } }), element('span', why, { id: id + '-why', class: 'small' }));
  const tell = text => { $('tried').textContent = text; };

  // replay repeats the last change, and gets the stored answer.
  async function replay() {
    if (!again) return tell('Change something first, such as the wishlist.');
    const response = await fetch(again.path, { method: again.method, headers: again.headers, body: again.body && JSON.stringify(again.body) });
    tell(`${response.status}, Idempotency-Replayed: ${response.headers.get('Idempotency-Replayed') ?? 'false'}. The same answer, and nothing was done twice.`);
  }

  async function reuse() {
    if (!self.token) return tell('Book a hotel first: the booking site has a token.');
    try {
      await arrive(key());
      tell('The token was accepted.');
    } catch (e) {
      tell(`${e.status} ${e.code}: ${e.message}`);
    }
  }

  async function lose() {
    await call('DELETE', new URL('hot-state', here).pathname);
    tabs.postMessage('changed');
    if (typeof loadWishes === 'function') await loadWishes();
    tell('The hot state is gone. The cookie is its own proof, so the session goes on, and the wishlist was read from the database.');
  }

  async function suspend() {
    if (!self.hotel) return tell('Open a hotel first.');
    const { tenantId, brand } = self.hotel, ended = ends.some(s => s.tenantId === tenantId);
    await call(ended ? 'DELETE' : 'PUT', new URL('suspension', here).pathname, { tenantId });
    tell(ended ? `${brand} is back.` : `${brand} is suspended for a minute: searches leave its hotels out, and no handoff is minted. Try to book.`);
    tabs.postMessage('changed');
  }

  // observe records an answer's headers.
  function observe({ method, path, body, headers, response }) {
    if (headers['Idempotency-Key'] && response.ok) again = { method, path, body, headers };
    const state = response.headers.get('X-Cache');
    if (!state) return;
    const name = path.includes('/availability') ? 'Availability' : path.includes('/hotels/') ? 'Hotel' : path.includes('/map') ? 'Map' : path.includes('/brands/') ? 'Brand' : 'Search';
    const ttl = Number(/ttl=(-?\d+)/.exec(response.headers.get('Cache-Status'))?.[1] ?? 0), lives = { Hotel: 300, Brand: 900 };
    caches.set(name, { state, ttl, life: lives[name] ?? 60, at: Date.now() });
    showCaches();
  }

  function showCaches() {
    if (box.hidden || !$('caches')) return;
    const words = { HIT: 'from the cache', MISS: 'from the catalogue, now stored', STALE: 'old, the catalogue failed', BYPASS: 'from the catalogue' };
    $('caches').replaceChildren(...[...caches].flatMap(([name, c]) => {
      const left = Math.round(c.ttl - (Date.now() - c.at) / 1000), age = Math.max(0, c.life - left);
      return fact(name, `${words[c.state] ?? c.state}, ${left > 0 ? `about ${age} s old, fresh for ${left} s` : 'expired'}`);
    }));
  }

  function showSession(v) {
    const s = v.session;
    $('session').replaceChildren(...s
      ? [...fact('ID', s.id), ...fact('Begun', new Date(s.createdAt).toLocaleString()), ...fact('Expires', new Date(s.expiresAt).toLocaleDateString()),
        ...fact('Language', s.preferences.locale || 'of the browser'), ...fact('Currency', s.preferences.currency || 'of the hotel'), ...fact('Hot state', 'in ' + v.hotState)]
      : [...fact('None', 'The browser has no cookie of a session. Without cookies, search and hotels work; the wishlist, history and booking do not.')]);
  }

  function showEvents(events) {
    for (const e of events) {
      last = e.id;
      const name = e.type.replace('melmastoon.bff.consumer.', '').replace(/\.v\d+$/, '');
      $('events').prepend(element('li', '', {}, element('details', '', {},
        element('summary', '', {}, element('b', name), ` ${time(e.at)}, published after ${Math.max(0, new Date(e.publishedAt) - new Date(e.at))} ms`),
        element('pre', e.data ? JSON.stringify(e.data, null, 1) : '', { tabindex: 0 }))));
    }
    while ($('events').children.length > kept) $('events').lastChild.remove();
  }

  async function update() {
    if (box.hidden || document.hidden || busy) return;
    busy = true;
    try {
      const response = await fetch(live + (last ? '?after=' + last : ''));
      if (!response.ok) return;
      const v = await response.json();
      ends = v.suspensions;
      showSession(v);
      showEvents(v.events);
      if (v.events.some(e => e.type.includes('.wishlist.')) && typeof loadWishes === 'function') loadWishes().catch(() => {});
    } catch { /* the server is unavailable; poll again */ } finally {
      busy = false;
    }
    const shown = self.hotel && ends.find(s => s.tenantId === self.hotel.tenantId);
    $('suspend').textContent = shown ? 'Resume this hotel' : 'Suspend this hotel';
    $('suspend').disabled = !self.hotel;
    $('reuse').disabled = !self.token;
    showCaches();
  }

  function open(on) {
    box.hidden = !on;
    toggle.setAttribute('aria-expanded', on);
    document.body.classList.toggle('with-drawer', on);
    clearInterval(timer);
    if (on) timer = setInterval(update, every);
    update();
  }

  build();
  observers.push(observe);
  toggle.addEventListener('click', () => open(box.hidden));
  document.addEventListener('visibilitychange', update);
  tabs.addEventListener('message', update);
  box.addEventListener('keydown', event => {
    if (event.key !== 'Escape') return;
    open(false);
    toggle.focus();
  });
  open(matchMedia('(min-width: 1100px)').matches);
  return self;
})();
