import { GuestBase, guarded, withSignal, type CallOptions, type GuardOptions, type GuestOptions, type MintOptions } from "./guest-base.js";
import type { components } from "./guest-schema.js";

type Schemas = components["schemas"];

/** A hotel type without the members that only hotels use. */
type OfItem<T> = Omit<T, "propertyId" | "checkIn" | "checkOut" | "adults" | "children" | "rooms">;

/** A wishlist entry. */
export interface ItemWish extends OfItem<Schemas["Wish"]> {
  itemId: string;
  /** Only in profiles with quantities. */
  quantity?: number;
  /** The entity tag, for `ifMatch`. */
  etag: string;
}

/** An entry to add. */
export interface ItemWishRequest {
  itemId: string;
  /** Required unless the profile defines a tenant. */
  tenantId?: string;
  /** Default 1. Added to the quantity of an existing entry. */
  quantity?: number;
  /** The entry's greatest quantity afterwards; default the profile's maximum. */
  max?: number;
  /** Default `detail`. */
  source?: Schemas["Source"];
  note?: string;
}

/** A recently viewed item. */
export interface ViewedItem extends OfItem<Schemas["Viewed"]> {
  itemId: string;
}

/** A handoff that the session minted, without its token. */
export interface ItemHandoff<Payload> extends OfItem<Schemas["Handoff"]> {
  itemId: string;
  payload: Payload;
}

/** The payload of a handoff. Currency and locale default to the session's. */
export interface PayloadRequest<Payload> extends OfItem<Schemas["MintRequest"]> {
  payload: Payload;
  /**
   * If a handoff with this name is open: `replace` (the default) voids it; `keep` returns it if content and browser are the same and
   * more than half its life is left.
   */
  ifOpen?: "replace" | "keep";
}

/** Types for a profile's search and catalogue. */
export interface Catalogue {
  /** Search criteria: the profile's schema `criteria`. */
  criteria: object;
  /** Results of the upstream `search`. */
  item: object;
  /** Answers of the other upstreams, by name. */
  answers: object;
}

/** A catalogue without types. */
export interface AnyCatalogue {
  criteria: Record<string, unknown>;
  item: Record<string, unknown>;
  answers: Record<string, Record<string, unknown>>;
}

/** A search by the profile's criteria. */
export interface CriteriaQuery<Criteria> {
  criteria: Criteria;
  /** Default 1. */
  page?: number;
  /** Default 20. */
  pageSize?: number;
  /** Default: the session's, or the browser's. */
  locale?: string;
  currency?: string;
}

/** A search in the history. */
export interface SearchedItems<Criteria> extends Omit<Schemas["Searched"], "query"> {
  query: Required<CriteriaQuery<Criteria>>;
}

/** A search page. `searchId` names the stored search. */
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
 * Returns a client for a server with another profile than hotel, e.g. a shop. Payload is the type of a handoff's payload, C the
 * catalogue's types. Throws a TypeError for an invalid option.
 */
export function createSiteClient<Payload = unknown, C extends Catalogue = AnyCatalogue>(options: GuestOptions): SiteClient<Payload, C> {
  return new SiteClient<Payload, C>(options);
}

/** A guest of a site with items. */
export class SiteClient<Payload = unknown, C extends Catalogue = AnyCatalogue> extends GuestBase<SiteKinds<Payload, C>> {
  /** Returns an upstream's answer for path values and parameters. It is the same for all guests. */
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

  /** Puts an item first in the viewed items. tenantId is required unless the profile defines a tenant. */
  addViewed(itemId: string, { tenantId, signal }: CallOptions & { tenantId?: string } = {}): Promise<ViewedItem> {
    return this.send("POST", "/session/recently-viewed", { body: { tenantId, itemId }, ...withSignal(signal) });
  }

  /** Adds n to an item's quantity, or adds the item. Throws quantity-limit if the sum would exceed max. */
  add(itemId: string, n = 1, { max, tenantId, ...options }: GuardOptions & { max?: number; tenantId?: string } = {}): Promise<ItemWish> {
    return this.send("POST", "/wishlist", { body: { itemId, quantity: n, max, tenantId }, keyed: true, ...guarded(options) });
  }

  /** Changes the note, the quantity, or both. An empty note removes the note. The condition is about the entry. */
  changeWish(itemId: string, change: { note?: string; quantity?: number }, options: GuardOptions = {}): Promise<ItemWish> {
    return this.send("PATCH", "/wishlist/{itemId}", { path: { itemId }, body: change, keyed: true, ...guarded(options) });
  }

  /**
   * Mints a handoff. Then send the guest to its redirectUrl. itemId is the payload's name, e.g. cart-1, and is consumed once: another
   * mint voids or keeps the open handoff with this name. After the handoff was consumed, it throws handoff-consumed, with the consumed
   * handoff in the error's `handoff`.
   */
  mint(tenantId: string, itemId: string, body: PayloadRequest<Payload>, { key, signal }: MintOptions = {}): Promise<Schemas["Minted"]> {
    return this.send("POST", "/handoff/{tenantId}/{itemId}", { path: { tenantId, itemId }, body, keyed: key ?? true, ...withSignal(signal) });
  }
}
