// A shop whose guests fill a cart without signing in, and a checkout that receives it.
import { request as forward } from "node:http";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";

import { GuestError, createSiteClient } from "@holdfast/ext-storage/guest";
import { createHandoffVerifier } from "@holdfast/ext-storage/handoff";
import express from "express";

const { API = "http://127.0.0.1:8000", INTERNAL = "http://127.0.0.1:8002", SERVICE, PORT = "3000" } = process.env;
const tenant = "11111111-2222-4333-8444-555555555555";
const paths = "/bff/consumer/v1";

/** Returns the guest for a request: each request needs its own client, with the browser's cookie. */
const guestOf = (req) => createSiteClient({ baseUrl: API, request: req, address: req.ip });

const cartOf = async (guest) => {
  const cart = [];
  for await (const { itemId, quantity } of guest.wishlist()) cart.push({ itemId, quantity });
  return cart;
};

/** Names the cart: the cart after an order has a new name, so an old page cannot order it. */
const nameOf = async (guest) => {
  for await (const { status, handoffId } of guest.handoffs()) if (status === "consumed") return `after-${handoffId}`;
  return "first";
};

const page = (name, cart) => `<!doctype html>
<meta name="viewport" content="width=device-width"><title>Shop</title>
<h1>Shop</h1>
${["apple", "pear", "plum"].map((item) => `<button data-item="${item}">Add ${item}</button>`).join(" ")}
<h2>Cart</h2>
<ul>${cart.map((c) => `<li>${c.quantity} × ${c.itemId}</li>`).join("")}</ul>
<form method="post" action="/checkout"><input type="hidden" name="cart" value="${name}"><button ${cart.length ? "" : "disabled"}>Check out</button></form>
<script type="module">
  import { createSiteClient } from "/holdfast/guest.js";
  const guest = createSiteClient({ baseUrl: location.origin }); // with the session that the server has started
  for (const button of document.querySelectorAll("[data-item]")) {
    button.onclick = async () => {
      await guest.add(button.dataset.item);
      location.reload();
    };
  }
</script>`;

const app = express();

app.get("/", async (req, res) => {
  const guest = guestOf(req);
  await guest.begin();
  const [name, cart] = [await nameOf(guest), await cartOf(guest)];
  res.append("Set-Cookie", guest.setCookies()).send(page(name, cart));
});

app.post("/checkout", express.urlencoded(), async (req, res) => {
  const guest = guestOf(req);
  const { redirectUrl } = await guest.mint(tenant, req.body.cart, { payload: { items: await cartOf(guest) } });
  res.append("Set-Cookie", guest.setCookies()).redirect(303, redirectUrl);
});

// Browsers also call Holdfast directly, under the page's origin.
app.use(paths, (req, res) => {
  const { forwarded, ...headers } = { ...req.headers, "x-forwarded-for": req.ip }; // a visitor's own Forwarded is not forwarded
  const upstream = forward(new URL(req.originalUrl, API), { method: req.method, headers }, (answer) => {
    res.writeHead(answer.statusCode, answer.headers);
    answer.pipe(res);
  });
  upstream.on("error", () => res.sendStatus(502));
  req.pipe(upstream);
});
app.use("/holdfast", express.static(dirname(fileURLToPath(import.meta.resolve("@holdfast/ext-storage")))));

// The checkout, usually another site, receives the token and consumes the handoff once.
const verifier = createHandoffVerifier({ keySet: `${API}${paths}/tenants/${tenant}/jwks.json`, issuer: "holdfast", tenant });

app.get("/paid", async (req, res) => {
  const { handoffId } = await verifier.verify(String(req.query.token));
  const call = (operation, body) => fetch(`${INTERNAL}/internal/handoff/${handoffId}/${operation}`, {
    method: "POST",
    headers: { Authorization: `Bearer ${SERVICE}`, "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID() },
    body: JSON.stringify(body),
  });
  const browser = { userAgent: req.get("User-Agent"), acceptLanguage: req.get("Accept-Language") };
  const answer = await call("consume", { token: req.query.token, guest: browser });
  const { payload, detail } = await answer.json();
  if (payload) await call("remove-items", { items: payload.items }); // after the payment
  res.status(answer.status).type("text/plain").send(payload ? `Paid: ${JSON.stringify(payload.items)}\n` : `${detail}\n`);
});

app.use((err, req, res, next) => res.status(err instanceof GuestError ? err.status : 400).type("text/plain").send(`${err.message}\n`));

if (!SERVICE?.startsWith("eyJ") || SERVICE.includes("…")) throw new Error("set SERVICE to the token that holdfast guest tokens create prints");
const server = app.listen(Number(PORT), "127.0.0.1", (error) => {
  if (error) throw new Error(`cannot listen on port ${PORT} (it is in handoff_url, too): ${error.message}`);
  console.log(`http://127.0.0.1:${server.address().port}/`);
});
