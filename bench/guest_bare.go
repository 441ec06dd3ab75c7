package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"time"

	"holdfast/internal/clock"
	"holdfast/internal/db/redisdb"
	"holdfast/internal/guest"
	"holdfast/internal/guest/redis"
	load "holdfast/internal/workload/guest"
)

const (
	guestBareListen = "HOLDFAST_BENCH_BARE_LISTEN"
	guestBareRedis  = "HOLDFAST_BENCH_BARE_REDIS"
)

// serveBare only sends a session read's Redis commands, in a separate process like the server. It does not verify
// cookies, log or count.
func serveBare(ctx context.Context) error {
	db, err := redisdb.Open(ctx, redisdb.Options{URL: os.Getenv(guestBareRedis)})
	if err != nil {
		return err
	}
	hot := redis.New(db, "bare", clock.System)
	limit := guest.Limit{Events: 1_000_000, Per: time.Minute, Burst: 333_333}
	http.HandleFunc(load.API+"/session", func(w http.ResponseWriter, r *http.Request) {
		cookie, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Cookie"), "gms="), ".")
		_, err := hot.Take(r.Context(), []guest.Bucket{{Key: "session:ip:bare", Limit: limit}, {Key: "session:" + cookie, Limit: limit}})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		s, err := hot.Session(r.Context(), guest.ID(cookie), guest.Change{ReadAttributes: true})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s) //nolint:musttag // only its size matters
	})
	return http.ListenAndServe(os.Getenv(guestBareListen), nil) //nolint:gosec // on loopback, for one run
}
