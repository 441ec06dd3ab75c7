'use strict';
// A hotel's booking site: its server consumes the handoff token before the page shows anything.
const [token, handoff] = location.hash.slice(1).split('/');
const hotel = new URLSearchParams(location.search).get('hotel');

// arrive sends the token to the booking site's server. The same attempt may be repeated; another attempt is refused.
const arrive = attempt => call('POST', new URL('arrivals', here).pathname, { handoffId: handoff, token, attempt });

const begin = guarded(async () => {
  $('frame').hidden = false;
  if (!token || !handoff) throw new Error('Choose a hotel first: this page receives guests from Lantern Stays.');
  const stay = await arrive('first');
  const h = await call('GET', `${api}/hotels/${encodeURIComponent(hotel)}`).catch(() => null);
  $('brand').textContent = h?.name ?? 'The hotel';
  document.title = `${h?.name ?? 'Booking site'} – Holdfast guest demo`;
  $('title').textContent = 'Your stay is waiting';
  const facts = [['Hotel', h?.name ?? ''], ['Nights', dates(stay.checkIn, stay.checkOut)], ['Guests', count(stay.adults, 'adult')], ['Language', stay.locale], ['Handoff', handoff.slice(0, 4) + '…' + handoff.slice(-6)]];
  $('arrival').replaceChildren(
    element('img', '', { class: 'wide', src: h ? facade(h) : picture('lobby'), alt: '', width: 640, height: 420 }),
    element('p', 'Welcome. We have your dates from Lantern Stays, and you need not type them again.', { id: 'welcome' }),
    element('dl', '', {}, ...facts.filter(f => f[1]).flatMap(([k, v]) => [element('dt', k), element('dd', v)])),
    element('button', 'Confirm booking', { class: 'primary', click: guarded(() => say('The hotel is invented, so nothing was booked.')) }));
  drawer.token = true;
  drawer.update();
});
addEventListener('DOMContentLoaded', begin);
