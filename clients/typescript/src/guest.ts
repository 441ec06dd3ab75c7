import { GuestBase, withSignal, type CallOptions, type GuestOptions } from "./guest-base.js";
import { createRaw, type Raw } from "./raw.js";
import type { components, operations, paths } from "./guest-schema.js";

export { GuestBase, type CallOptions, type GuestOptions, type Kinds, type Patch, type Tagged } from "./guest-base.js";
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
export type Session = Schemas["Session"];
export type Linked = Schemas["Linked"];
export type UserSession = Schemas["UserSession"];
export type Viewed = Schemas["Viewed"];
export type Searched = Schemas["Searched"];
export type SearchQuery = Schemas["SearchQuery"];
export type SearchResults = Schemas["SearchResults"];
export type MapQuery = Schemas["MapQuery"];
export type Pins = Schemas["Pins"];
export type Hotel = Schemas["Hotel"];
export type Availability = Schemas["Availability"];
export type Facets = Schemas["Facets"];
export type Brand = Schemas["Brand"];
export type Wish = Schemas["Wish"];
export type WishRequest = Schemas["WishRequest"];
export type MintRequest = Schemas["MintRequest"];
export type Minted = Schemas["Minted"];
export type Handoff = Schemas["Handoff"];
export type PageView = Schemas["PageView"];
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
  setNote(propertyId: string, note: string, { signal }: CallOptions = {}): Promise<Wish> {
    return this.send("PATCH", "/wishlist/{propertyId}", { path: { propertyId }, body: { note }, keyed: true, ...withSignal(signal) });
  }

  /** Mints a handoff. Then send the guest to its redirectUrl. Solves a challenge if the server suspects a bot. */
  mint(tenantId: string, propertyId: string, body: MintRequest, { signal }: CallOptions = {}): Promise<Minted> {
    return this.send("POST", "/handoff/{tenantId}/{propertyId}", { path: { tenantId, propertyId }, body, keyed: true, ...withSignal(signal) });
  }
}
