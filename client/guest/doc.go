// Package guest is a client for Holdfast's guest service.
//
// A Client represents a guest's browser and holds the session cookie. Use it in tests and in front ends that render
// on the server.
//
//	client, err := guest.New("https://shop.example.com")
//	wish, err := client.AddWish(ctx, guest.WishRequest{TenantID: tenant, PropertyID: property, Source: guest.SourceDetail})
//	minted, err := client.Mint(ctx, tenant, property, "", guest.MintRequest{CheckIn: "2036-12-30", CheckOut: "2037-01-02", Adults: 2})
//
// A Site does the same for other sites, such as a shop. There, item IDs are texts, and handoffs carry a payload.
//
// Client and Site store attributes of the front end with the session, and sign users in and out. A Catalogue searches
// a Site. For apps, UseTokens replaces the cookie by a token.
//
// A Receiver is a booking site that consumes handoffs at the internal listener:
//
//	receiver, err := guest.NewReceiver("http://holdfast.internal:8002", guest.StaticToken(token))
//	handoff, err := receiver.Consume(ctx, handoffID, bookingID, guest.ConsumeRequest{Token: token})
//
// A SiteReceiver consumes handoffs with a payload.
//
// Error responses are returned as *Error. Compare the code with errors.Is(err, guest.CodeWishlistFull).
//
// The client starts a session and solves bot challenges when necessary. It retries rate-limited requests. After a
// 408, 502, 503, 504 or a network error, it also retries reads, and changes with an idempotency key.
//
// Request and response types are generated from the server's OpenAPI description at /bff/consumer/v1/openapi.json.
package guest

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config oapi-codegen.yaml ../../internal/guest/httpapi/openapi.json
//go:generate sh -c "sha256sum <../../internal/guest/httpapi/openapi.json >openapi.sha256"
