package fault

import (
	"os"
	"slices"

	bucketsfault "holdfast/test/fault/buckets"
	extfault "holdfast/test/fault/ext"
	guestfault "holdfast/test/fault/guest"
	"holdfast/test/fault/harness"
	syncfault "holdfast/test/fault/sync"
	accountsfault "holdfast/test/fault/tokenserver"
)

// all returns the services that have a workload.
func all() []harness.Service {
	some := []harness.Service{syncfault.Service(), accountsfault.Service(), extfault.Service(), bucketsfault.Service()}
	if guestfault.HaveRedis() {
		some = append(some, guestfault.Service())
	}
	return some
}

// services returns all services, or the one in FAULT_SERVICE. One server runs them all, so that a
// fault affects requests of every service at once. Guests, which need a Redis for each test on
// PostgreSQL, join by default only where a test asks for withGuests.
func services() []harness.Service {
	guests := os.Getenv("FAULT_SERVICE") == "guest" || os.Getenv("FAULT_ROUNDS") != ""
	return slices.DeleteFunc(withGuests(), func(s harness.Service) bool { return s.Name == "guest" && !guests })
}

// withGuests is services with guests.
func withGuests() []harness.Service {
	only := os.Getenv("FAULT_SERVICE")
	return slices.DeleteFunc(all(), func(s harness.Service) bool { return only != "" && only != s.Name })
}

// servicesOn returns the settings of a server whose services all use a database.
func servicesOn(url string) []string { return harness.Settings(services(), "DATABASE_URL", url) }

// withSpanner returns the services that have a backend for Spanner.
func withSpanner() (some []harness.Service) {
	for _, s := range services() {
		if s.Spanner {
			some = append(some, s)
		}
	}
	return some
}
