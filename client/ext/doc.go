// Package ext is a client of Holdfast's extension storage: JSON records of an
// install of an extension, in namespaces, under keys.
//
//	client, err := ext.New("https://holdfast.example.org", ext.StaticToken(token))
//	install := client.Install(installID)
//	settings := install.Records("settings")
//	meta, err := settings.Put(ctx, "theme", ext.Put{Value: map[string]any{"dark": true}})
//
// If the server refuses a request, the error is an *Error. Compare its code with
// errors.Is(err, ext.CodeNotFound), which also matches the cause if one item of several
// failed.
//
// The client retries a request that the server refused with 429, after the time that the
// server asks for. After a 408, 502, 503 or 504, or a network error, the server may have
// done the request. So the client retries only what is safe to repeat: reads, puts and
// deletes without a precondition, and batches and increments, which carry an idempotency
// key. Other writes return the error.
//
// The types of requests and responses are generated from the server's OpenAPI
// description, which it serves at /ext/openapi.json.
package ext

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config oapi-codegen.yaml ../../internal/extstorage/httpapi/openapi.json
//go:generate sh -c "sha256sum <../../internal/extstorage/httpapi/openapi.json >openapi.sha256"
