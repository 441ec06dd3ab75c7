import { GuestBase, withSignal, type CallOptions, type GuestOptions } from "./guest-base.js";
import type { components } from "./guest-schema.js";

type Schemas = components["schemas"];

/** The hotel's type for a site with items. */
type OfItem<T> = Omit<T, "propertyId" | "checkIn" | "checkOut" | "adults" | "children" | "rooms">;

export interface ItemWish extends OfItem<Schemas["Wish"]> {
  itemId: string;
  /** If the profile has quantities. */
  quantity?: number;
}

export interface ItemWishRequest {
  itemId: string;
  /** Required unless the profile has a tenant. */
  tenantId?: string;
  /** 1 if absent. */
  quantity?: number;
  /** detail if absent. */
  source?: Schemas["Source"];
  note?: string;
}

export interface ViewedItem extends OfItem<Schemas["Viewed"]> {
  itemId: string;
}

export interface ItemHandoff<Payload> extends OfItem<Schemas["Handoff"]> {
  itemId: string;
  payload: Payload;
}

/** What a handoff hands over. Currency and locale are those of the session if absent. */
export interface PayloadRequest<Payload> extends OfItem<Schemas["MintRequest"]> {
  payload: Payload;
}

/** The types of a profile's search and catalogue. */
export interface Catalogue {
  /** By what guests search: the schema `criteria` of the profile. */
  criteria: object;
  /** What the upstream `search` finds. */
  item: object;
  /** The answers of the other upstreams, by their names. */
  answers: object;
}

/** A catalogue of which the front end has no types. */
export interface AnyCatalogue {
  criteria: Record<string, unknown>;
  item: Record<string, unknown>;
  answers: Record<string, Record<string, unknown>>;
}

export interface CriteriaQuery<Criteria> {
  criteria: Criteria;
  /** 1 if absent. */
  page?: number;
  /** 20 if absent. */
  pageSize?: number;
  /** Those of the session or of the browser if absent. */
  locale?: string;
  currency?: string;
}

export interface SearchedItems<Criteria> extends Omit<Schemas["Searched"], "query"> {
  query: Required<CriteriaQuery<Criteria>>;
}

export interface ItemResults<C extends Catalogue> extends Omit<Schemas["SearchResults"], "query" | "items"> {
  query: Required<CriteriaQuery<C["criteria"]>>;
  items: C["item"][];
}

interface SiteKinds<Payload, C extends Catalogue> {
  searchQuery: CriteriaQuery<C["criteria"]>;
  results: ItemResults<C>;
  searched: SearchedItems<C["criteria"]>;
  wish: ItemWish;
  wishRequest: ItemWishRequest;
  viewed: ViewedItem;
  handoff: ItemHandoff<Payload>;
  pageView: OfItem<Schemas["PageView"]> & { itemId?: string };
  funnelEvent: OfItem<Schemas["FunnelEvent"]> & { itemId?: string };
}

/**
 * Returns a client of a server with another profile than hotel, such as a shop. Payload is the type of what a handoff hands over, C
 * has those of the catalogue. Throws a TypeError if an option is not valid.
 */
export function createSiteClient<Payload = unknown, C extends Catalogue = AnyCatalogue>(options: GuestOptions): SiteClient<Payload, C> {
  return new SiteClient<Payload, C>(options);
}

/** The browser of one guest of a site with items. */
export class SiteClient<Payload = unknown, C extends Catalogue = AnyCatalogue> extends GuestBase<SiteKinds<Payload, C>> {
  /** Returns the answer of an upstream to the values of its path and parameters. It is the same for all guests. */
  catalogue<Name extends keyof C["answers"] & string>(
    name: Name,
    path: readonly string[] = [],
    parameters: Record<string, string | undefined> = {},
    { signal }: CallOptions = {},
  ): Promise<C["answers"][Name]> {
    const values = Object.fromEntries([name, ...path].map((value, i) => [`v${i}`, value]));
    const template = Object.keys(values).map((key) => `/{${key}}`).join("");
    return this.send("GET", `/catalogue${template}`, { path: values, query: parameters, public: true, ...withSignal(signal) });
  }

  /** Puts an item first among those that the guest has looked at. The tenant may be absent if the profile has one. */
  addViewed(itemId: string, { tenantId, signal }: CallOptions & { tenantId?: string } = {}): Promise<ViewedItem> {
    return this.send("POST", "/session/recently-viewed", { body: { tenantId, itemId }, ...withSignal(signal) });
  }

  /** Changes the note, the quantity, or both. An empty note removes it. */
  changeWish(itemId: string, change: { note?: string; quantity?: number }, { signal }: CallOptions = {}): Promise<ItemWish> {
    return this.send("PATCH", "/wishlist/{itemId}", { path: { itemId }, body: change, keyed: true, ...withSignal(signal) });
  }

  /** Mints a handoff. Then send the guest to its redirectUrl. itemId names what is handed over, such as cart-1. */
  mint(tenantId: string, itemId: string, body: PayloadRequest<Payload>, { signal }: CallOptions = {}): Promise<Schemas["Minted"]> {
    return this.send("POST", "/handoff/{tenantId}/{itemId}", { path: { tenantId, itemId }, body, keyed: true, ...withSignal(signal) });
  }
}
