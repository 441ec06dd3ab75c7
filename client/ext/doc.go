// Package ext is a client of Holdfast's extension storage: JSON records of an
// install of an extension, in namespaces, under keys.
//
//	client, err := ext.New("https://holdfast.example.org", ext.StaticToken(token))
//	install := client.Install(installID)
//	settings := install.Records("settings")
//	meta, err := settings.Put(ctx, "theme", ext.Put{Value: map[string]any{"dark": true}})
//
// An answer that is an error is an *Error; errors.Is(err, ext.CodeNotFound)
// tells what it is, also of one item of several.
//
// A request that was refused because there were too many is repeated when the
// server says that it may be. When the server or the network is in trouble it is
// not known what a request came to: then reads, puts and deletes without a precondition,
// batches and increments are repeated, which do no harm twice; other writes
// return the error.
//
// The types of what is sent and received are generated from the server's
// description of its API, which it serves at /ext/openapi.json.
package ext

//go:generate go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -config oapi-codegen.yaml ../../internal/extstorage/httpapi/openapi.json
//go:generate sh -c "sha256sum <../../internal/extstorage/httpapi/openapi.json >openapi.sha256"
