// Package ext is a client for Holdfast's extension storage: JSON records by install, namespace and key.
//
//	client, err := ext.New("https://holdfast.example.org", ext.StaticToken(token))
//	install := client.Install(installID)
//	settings := install.Records("settings")
//	meta, err := settings.Put(ctx, "theme", ext.Put{Value: map[string]any{"dark": true}})
//
// Errors from the server are of type *Error. errors.Is(err, ext.CodeNotFound) matches the code or, if one of several
// items failed, the cause.
//
// The client retries after a 429, when the server allows it. After a 408, 502, 503, 504 or network error the request
// may have been executed, so the client repeats only safe requests: reads, puts and deletes without a precondition,
// and batches, increments and updates, which carry an idempotency key. Watch never gives up. After a 401 the client asks
// the TokenSource for another token.
//
// Types are generated from the server's OpenAPI description at /ext/openapi.json.
package ext

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config oapi-codegen.yaml ../../internal/extstorage/httpapi/openapi.json
//go:generate sh -c "sha256sum <../../internal/extstorage/httpapi/openapi.json >openapi.sha256"
