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

interface SiteKinds<Payload> {
  wish: ItemWish;
  wishRequest: ItemWishRequest;
  viewed: ViewedItem;
  handoff: ItemHandoff<Payload>;
  pageView: OfItem<Schemas["PageView"]> & { itemId?: string };
  funnelEvent: OfItem<Schemas["FunnelEvent"]> & { itemId?: string };
}

/**
 * Returns a client of a server with another profile than hotel, such as a shop. Payload is the type of what a handoff hands over.
 * Throws a TypeError if an option is not valid.
 */
export function createSiteClient<Payload = unknown>(options: GuestOptions): SiteClient<Payload> {
  return new SiteClient<Payload>(options);
}

/** The browser of one guest of a site with items. */
export class SiteClient<Payload = unknown> extends GuestBase<SiteKinds<Payload>> {
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
