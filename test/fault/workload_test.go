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

func all() []harness.Service {
	some := []harness.Service{syncfault.Service(), accountsfault.Service(), extfault.Service(), bucketsfault.Service()}
	if guestfault.HaveRedis() {
		some = append(some, guestfault.Service())
	}
	return some
}

// services returns all services, or the service named by FAULT_SERVICE. One server runs them all, so that a fault
// affects requests to every service at once. Guests need a Redis per test on PostgreSQL, so by default only tests that
// call withGuests include them.
func services() []harness.Service {
	guests := os.Getenv("FAULT_SERVICE") == "guest" || os.Getenv("FAULT_ROUNDS") != ""
	return slices.DeleteFunc(withGuests(), func(s harness.Service) bool { return s.Name == "guest" && !guests })
}

func withGuests() []harness.Service {
	only := os.Getenv("FAULT_SERVICE")
	return slices.DeleteFunc(all(), func(s harness.Service) bool { return only != "" && only != s.Name })
}

func servicesOn(url string) []string { return harness.Settings(services(), "DATABASE_URL", url) }

func withSpanner() (some []harness.Service) {
	for _, s := range services() {
		if s.Spanner {
			some = append(some, s)
		}
	}
	return some
}
