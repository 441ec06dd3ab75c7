package suite

import (
	"slices"
	"testing"
	"time"
)

// ReportMedians reports the medians, in µs, for a benchmark's two alternating sides, and their ratio.
func ReportMedians(b *testing.B, took [2][]time.Duration, first, second string) {
	b.Helper()
	if len(took[0]) == 0 || len(took[1]) == 0 {
		return
	}
	var median [2]float64
	for i := range took {
		slices.Sort(took[i])
		median[i] = float64(took[i][len(took[i])/2].Microseconds())
	}
	b.ReportMetric(median[0], "µs/"+first)
	b.ReportMetric(median[1], "µs/"+second)
	b.ReportMetric(median[0]/median[1], "of-"+first)
}
