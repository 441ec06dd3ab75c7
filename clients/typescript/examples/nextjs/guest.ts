import { createSiteClient } from "@holdfast/ext-storage/guest";

export const tenant = "11111111-2222-4333-8444-555555555555";

export type Cart = { items: { itemId: string; quantity: number }[] };

/** Returns the guest for a browser's request, on the server. */
export function guestOf(headers: Headers) {
  const address = headers.get("x-forwarded-for") ?? undefined; // Next.js sets it
  return createSiteClient<Cart>({ baseUrl: process.env.API ?? "http://127.0.0.1:8000", request: { headers }, address });
}

/** Names the cart: the cart after an order has a new name, so an old page cannot order it. */
export async function nameOf(guest: ReturnType<typeof guestOf>): Promise<string> {
  for await (const { status, handoffId } of guest.handoffs()) if (status === "consumed") return `after-${handoffId}`;
  return "first";
}

export async function cartOf(guest: ReturnType<typeof guestOf>): Promise<Cart> {
  const items = [];
  for await (const { itemId, quantity = 1 } of guest.wishlist()) items.push({ itemId, quantity });
  return { items };
}
