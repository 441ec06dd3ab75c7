import { NextResponse, type NextRequest } from "next/server";

import { guestOf } from "./guest";

// Pages cannot set cookies during rendering, so the session starts here.
export async function proxy(request: NextRequest) {
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

export const config = { matcher: "/" };
