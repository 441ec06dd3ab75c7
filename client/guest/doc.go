// Package guest is a client of Holdfast's guest service.
//
// A Client is the browser of one guest: it has the cookie of a session. It is for tests
// and for front ends that render on the server.
//
//	client, err := guest.New("https://shop.example.com")
//	wish, err := client.AddWish(ctx, guest.WishRequest{TenantID: tenant, PropertyID: property, Source: guest.SourceDetail})
//	minted, err := client.Mint(ctx, tenant, property, guest.MintRequest{CheckIn: "2036-12-30", CheckOut: "2037-01-02", Adults: 2})
//
// A Site is the browser of a guest of any other site, such as a shop: its items are texts, and its handoffs have a payload.
//
// Both keep attributes of a front end with the session, and sign users of the site in and out.
//
// A Receiver is a booking site, which consumes handoffs at the internal listener:
//
//	receiver, err := guest.NewReceiver("http://holdfast.internal:8002", guest.StaticToken(token))
//	handoff, err := receiver.Consume(ctx, handoffID, bookingID, guest.ConsumeRequest{Token: token})
//
// A SiteReceiver does so for handoffs with a payload.
//
// If the server refuses a request, the error is an *Error. Compare its code with
// errors.Is(err, guest.CodeWishlistFull).
//
// The client retries what is safe to repeat: requests that a rate limit refused, and after a
// 408, 502, 503, 504 or a network error reads and changes with an idempotency key.
//
// A Client begins a session when a request needs one, and solves the challenge with which the server
// tells browsers from bots.
//
// The types of requests and responses are generated from the server's OpenAPI
// description, which it serves at /bff/consumer/v1/openapi.json.
package guest

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config oapi-codegen.yaml ../../internal/guest/httpapi/openapi.json
//go:generate sh -c "sha256sum <../../internal/guest/httpapi/openapi.json >openapi.sha256"
