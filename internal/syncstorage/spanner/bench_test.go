package spanner_test

import (
	"fmt"
	"testing"
	"time"

	"cloud.google.com/go/spanner"

	"holdfast/internal/db/spannerdb"
	"holdfast/internal/suite"
	ss "holdfast/internal/syncstorage"
	backend "holdfast/internal/syncstorage/spanner"
)

// BenchmarkWrite compares the store's 500-byte overwrites with the least work in the same database: a
// transaction that reads the records' IDs and buffers their rows. The two alternate. Only their ratio counts, because
// the emulator keeps everything in memory.
func BenchmarkWrite(b *testing.B) {
	for _, records := range []int{1, 100} {
		b.Run(fmt.Sprintf("records=%d", records), func(b *testing.B) {
			db := openDB(b, options(b))
			s, o := backend.New(db), ss.Owner{UID: 1, FxAUID: fmt.Sprintf("%032x", 1), FxAKID: "0000001700000-qqqqqqqqqqqqqqqqqqqqqg"}
			var us []ss.Update
			var ids []string
			for i := range records {
				ids = append(ids, fmt.Sprint(100_000_000_000+i))
				us = append(us, ss.Update{ID: ids[i], Payload: ss.Some(make([]byte, 500))})
			}
			var took [2][]time.Duration
			for n := 0; b.Loop(); n++ {
				begun := time.Now()
				err := db.Write(b.Context(), "bare", func(tx *spannerdb.Tx) error { return bareWrite(tx, o, ids, begun) })
				between := time.Now()
				if err == nil {
					_, err = s.Post(b.Context(), o, ss.Write{Collection: "bookmarks", Now: ss.At(between)}, us)
				}
				if err != nil {
					b.Fatal(err)
				}
				if n > 0 { // the first write creates the rows
					took[0], took[1] = append(took[0], between.Sub(begun)), append(took[1], time.Since(between))
				}
			}
			suite.ReportMedians(b, took, "bare", "store")
		})
	}
}

// bareWrite overwrites records in a separate collection, so that it does not wait for the store.
func bareWrite(tx *spannerdb.Tx, o ss.Owner, ids []string, now time.Time) error {
	key := func(more map[string]any) map[string]any {
		more["fxa_uid"], more["fxa_kid"], more["collection_id"] = o.FxAUID, "bare"+o.FxAKID[4:], 4
		return more
	}
	seek := spannerdb.Statement{Name: "bare", SQL: `@{LOCK_SCANNED_RANGES=exclusive}SELECT bso_id FROM UNNEST(@ids) AS named
		JOIN@{JOIN_METHOD=APPLY_JOIN,FORCE_JOIN_ORDER=TRUE} bsos ON fxa_uid = @fxa_uid AND fxa_kid = @fxa_kid AND collection_id = @collection_id AND bso_id = named`}
	err := tx.ForEach(seek, key(map[string]any{"ids": ids}), func(*spanner.Row) error { return nil })
	rows := []*spanner.Mutation{spanner.InsertOrUpdateMap("user_collections", key(map[string]any{"modified": now}))}
	for _, id := range ids {
		rows = append(rows, spanner.InsertOrUpdateMap("bsos", key(map[string]any{
			"bso_id": id, "payload": string(make([]byte, 500)), "modified": now, "expiry": now.Add(time.Hour),
		})))
	}
	if err != nil {
		return err
	}
	return tx.Buffer(rows...)
}
