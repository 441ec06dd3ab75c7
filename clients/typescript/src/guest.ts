import { GuestBase, guarded, withSignal, type CallOptions, type GuardOptions, type GuestOptions, type MintOptions } from "./guest-base.js";
import { createRaw, type Raw } from "./raw.js";
import type { components, operations, paths } from "./guest-schema.js";

export { GuestBase, type CallOptions, type GuardOptions, type GuestOptions, type Kinds, type MintOptions, type Patch, type Tagged } from "./guest-base.js";
export { GuestError, type ErrorCode } from "./guest-error.js";
export type { RequestHeaders } from "./cookies.js";
export type { TokenStore } from "./tokens.js";
export {
  SiteClient,
  createSiteClient,
  type AnyCatalogue,
  type Catalogue,
  type CriteriaQuery,
  type ItemHandoff,
  type ItemResults,
  type ItemWish,
  type ItemWishRequest,
  type PayloadRequest,
  type SearchedItems,
  type ViewedItem,
} from "./site.js";
export type { components, operations, paths } from "./guest-schema.js";

type Schemas = components["schemas"];
/** The session: creation, signed-in user, preferences and attributes. */
export type Session = Schemas["Session"];
/** How the lists were merged when the guest signed in. */
export type Linked = Schemas["Linked"];
/** A device on which the user signed in. */
export type UserSession = Schemas["UserSession"];
/** A recently viewed item. */
export type Viewed = Schemas["Viewed"];
/** A search in the history. */
export type Searched = Schemas["Searched"];
/** A hotel search. Missing members get defaults. */
export type SearchQuery = Schemas["SearchQuery"];
/** A search page. `searchId` names the stored search. */
export type SearchResults = Schemas["SearchResults"];
/** A hotel search for a map section. */
export type MapQuery = Schemas["MapQuery"];
/** The hotels on a map section; `total` may exceed their number. */
export type Pins = Schemas["Pins"];
/** A hotel's page. Prices are decimal text in the currency's smallest unit. */
export type Hotel = Schemas["Hotel"];
/** The offers for a stay. Prices are decimal text in the smallest unit of the hotel's currency. */
export type Availability = Schemas["Availability"];
/** Numbers of hotels in a region, for filters. */
export type Facets = Schemas["Facets"];
/** A tenant's public profile. */
export type Brand = Schemas["Brand"];
/** A wishlist entry. */
export type Wish = Schemas["Wish"];
/** An entry to add. */
export type WishRequest = Schemas["WishRequest"];
/** A stay to hand off. Dates are YYYY-MM-DD. */
export type MintRequest = Schemas["MintRequest"];
/** A new handoff with the URL of the booking site. */
export type Minted = Schemas["Minted"];
/** A handoff that the session minted, without its token. */
export type Handoff = Schemas["Handoff"];
/** A page view to record. Times are in RFC 3339; durations in milliseconds. */
export type PageView = Schemas["PageView"];
/** A step towards a booking, to record. */
export type FunnelEvent = Schemas["FunnelEvent"];

/** Locale and currency of an answer; default from the browser's language. */
export interface HotelOptions extends CallOptions, NonNullable<operations["getHotel"]["parameters"]["query"]> {}

/** The dates of a stay, YYYY-MM-DD, and the guests; default 2 adults, 0 children, 1 room. */
export type Nights = operations["getAvailability"]["parameters"]["query"];

interface HotelKinds {
  wish: Wish;
  wishRequest: WishRequest;
  viewed: Viewed;
  searchQuery: SearchQuery;
  results: SearchResults;
  searched: Searched;
  handoff: Handoff;
  pageView: PageView;
  funnelEvent: FunnelEvent;
}

/** Returns a client for a server with the profile hotel. Throws a TypeError for an invalid option. */
export function createGuestClient(options: GuestOptions): GuestClient {
  return new GuestClient(options);
}

/** A guest of a hotel search. */
export class GuestClient extends GuestBase<HotelKinds> {
  /** A typed client for all paths of the API. It does not retry or throw. */
  readonly raw: Raw<paths> = createRaw<paths>(this.wire);

  /** Puts a property at the front of the viewed properties. */
  addViewed(tenantId: string, propertyId: string, { signal }: CallOptions = {}): Promise<Viewed> {
    return this.send("POST", "/session/recently-viewed", { body: { tenantId, propertyId }, ...withSignal(signal) });
  }

  /** Returns the properties in a map area. */
  searchMap(body: MapQuery, { signal }: CallOptions = {}): Promise<Pins> {
    return this.send("POST", "/search/map", { body, ...withSignal(signal) });
  }

  /** Returns a property. Throws not-found for an unknown property. */
  hotel(propertyId: string, { signal, ...query }: HotelOptions = {}): Promise<Hotel> {
    return this.send("GET", "/hotels/{propertyId}", { path: { propertyId }, query, public: true, ...withSignal(signal) });
  }

  /** Returns a property's offers for a stay. */
  availability(propertyId: string, query: Nights, { signal }: CallOptions = {}): Promise<Availability> {
    return this.send("GET", "/hotels/{propertyId}/availability", { path: { propertyId }, query, public: true, ...withSignal(signal) });
  }

  /** Returns the search filters for a region. */
  facets(country: string, region: string, { signal }: CallOptions = {}): Promise<Facets> {
    return this.send("GET", "/facets/{country}/{region}", { path: { country, region }, public: true, ...withSignal(signal) });
  }

  /** Returns a tenant's branding. */
  brand(tenantId: string, { signal }: CallOptions = {}): Promise<Brand> {
    return this.send("GET", "/brands/{tenantId}/peek", { path: { tenantId }, public: true, ...withSignal(signal) });
  }

  /** Replaces a property's note on the wishlist; an empty note removes it. */
  setNote(propertyId: string, note: string, options: GuardOptions = {}): Promise<Wish> {
    return this.send("PATCH", "/wishlist/{propertyId}", { path: { propertyId }, body: { note }, keyed: true, ...guarded(options) });
  }

  /** Mints a handoff. Then send the guest to its redirectUrl. Solves a challenge if the server suspects a bot. */
  mint(tenantId: string, propertyId: string, body: MintRequest, { key, signal }: MintOptions = {}): Promise<Minted> {
    return this.send("POST", "/handoff/{tenantId}/{propertyId}", { path: { tenantId, propertyId }, body, keyed: key ?? true, ...withSignal(signal) });
  }
}
