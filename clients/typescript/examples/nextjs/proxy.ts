import { NextResponse, type NextRequest } from "next/server";

import { guestOf } from "./guest";

/** Lets the rewrite in next.config.ts send the visitor's address, which Next.js adds for the proxy only. */
function forward(request: NextRequest) {
  const headers = new Headers(request.headers);
  headers.delete("forwarded"); // a visitor's own
  return NextResponse.next({ request: { headers } });
}

// Pages cannot set cookies during rendering, so the session starts here.
export async function proxy(request: NextRequest) {
  if (request.nextUrl.pathname !== "/") return forward(request);
  const guest = guestOf(request.headers);
  await guest.begin();
  const cookies = guest.setCookies();
  for (const cookie of cookies) {
    const [name = "", value = ""] = cookie.split(";", 1)[0]!.split("=");
    request.cookies.set(name, value); // for the page
  }
  const response = NextResponse.next({ request });
  for (const cookie of cookies) response.headers.append("Set-Cookie", cookie); // for the browser
  return response;
}

export const config = { matcher: ["/", "/bff/consumer/v1/:path*"] };
