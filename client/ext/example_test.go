package ext_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"holdfast/client/ext"
)

func Example() { //nolint:testableexamples // TestExample runs it
	ctx := context.Background()
	client, err := ext.New(os.Getenv("STORAGE_URL"), ext.StaticToken(os.Getenv("STORAGE_TOKEN")))
	if err != nil {
		log.Fatal(err)
	}
	settings := client.Install(os.Getenv("STORAGE_INSTALL")).Records("settings")

	meta, err := settings.Put(ctx, "theme", ext.Put{Value: map[string]any{"dark": true}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("revision", meta.Revision)

	// Another client changes the record, so the next Put fails.
	if _, err := settings.Merge(ctx, "theme", map[string]any{"font": "mono"}); err != nil {
		log.Fatal(err)
	}
	_, err = settings.Put(ctx, "theme", ext.Put{Value: nil}, ext.IfRevision(meta.Revision))
	if e, ok := errors.AsType[*ext.Error](err); ok && e.Code == ext.CodeRevisionMismatch {
		fmt.Println("refused: the revision is", *e.CurrentRevision)
	}

	for record, err := range settings.List(ctx, ext.List{Values: true}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(record.Key, string(record.Value))
	}
}
