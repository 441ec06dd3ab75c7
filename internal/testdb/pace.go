package testdb

import (
	"hash/fnv"
	"math"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// paceVariable holds the machine's pace, which testservers measures before it runs the tests.
const paceVariable = "TEST_PACE"

// pace returns how many times longer than on an idle machine a test may wait: 1 or more. It is 1 without testservers.
var pace = sync.OnceValue(func() float64 {
	measured, err := strconv.ParseFloat(os.Getenv(paceVariable), 64)
	if err != nil {
		return 1
	}
	return max(measured, 1)
})

// Patient returns the time that a test may wait for something that takes at most d on an idle machine. A test waits for a
// signal; this only ends a test whose signal never comes. It is not for times that the test checks.
func Patient(d time.Duration) time.Duration { return time.Duration(float64(d) * pace()) }

// The work of MeasurePace, and its duration on an idle machine of the kind for which the tests' bounds were chosen. FNV
// needs no special instructions, which make other hashes ten times faster on some processors.
const (
	paceWork  = 256 << 20 // bytes to hash per core
	paceTakes = 300 * time.Millisecond
	maxPace   = 8 // a test that hangs should still end
)

// MeasurePace hashes on all cores at once and returns the variable for the environment of the tests. Other programs on the
// machine make it slower, too.
func MeasurePace() (setting string) {
	cores := runtime.NumCPU()
	start := time.Now()
	var hashing sync.WaitGroup
	for range cores {
		hashing.Go(func() {
			block, hash := make([]byte, 1<<20), fnv.New64a()
			for range paceWork >> 20 {
				hash.Write(block)
			}
		})
	}
	hashing.Wait()
	measured := float64(time.Since(start)) / float64(paceTakes)
	return paceVariable + "=" + strconv.Itoa(int(min(max(math.Round(measured), 1), maxPace)))
}
