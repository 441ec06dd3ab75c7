import { cartOf, guestOf, tenant } from "../../guest";

export async function POST(request: Request) {
  const guest = guestOf(request.headers);
  const name = String((await request.formData()).get("cart"));
  const { redirectUrl } = await guest.mint(tenant, name, { payload: await cartOf(guest) });
  return new Response(null, { status: 303, headers: { Location: redirectUrl } });
}
