import { cartOf, guestOf, tenant } from "../../guest";

export async function POST(request: Request) {
  const guest = guestOf(request.headers);
  const { redirectUrl } = await guest.mint(tenant, "cart", { payload: await cartOf(guest) });
  return new Response(null, { status: 303, headers: { Location: redirectUrl } });
}
