package sync

import (
	"holdfast/internal/app/service"
	"holdfast/internal/syncstorage"
)

// countOverQuota returns syncstorage.Options.OverQuota. It also logs the user, because an operator who watches before
// enforcing a quota needs to know whom it would refuse.
func countOverQuota(d *service.Deps) func(syncstorage.Owner, string, syncstorage.Used) {
	over := d.Metrics.Counter("holdfast_sync_over_quota_total", "Writes over a quota that is not enforced.")
	return func(o syncstorage.Owner, collection string, used syncstorage.Used) {
		over.WithLabelValues().Inc()
		d.Log.Warn("user is over quota, which is not enforced", "uid", o.UID, "collection", collection,
			"collection_bytes", used.Collection, "user_bytes", used.User)
	}
}

// countMutations returns a function that counts a commit's mutations: foretold by package budget, and counted by
// Spanner, which is 0 in the emulator.
func countMutations(d *service.Deps) func(step string, foretold, counted int) {
	predicted := d.Metrics.Counter("holdfast_sync_spanner_predicted_mutations_total", "Predicted mutations per Spanner commit.", "statement")
	mutations := d.Metrics.Counter("holdfast_sync_spanner_mutations_total", "Mutations per commit as counted by Spanner. The emulator counts none.", "statement")
	return func(step string, foretold, counted int) {
		predicted.WithLabelValues(step).Add(float64(foretold))
		mutations.WithLabelValues(step).Add(float64(counted))
	}
}
