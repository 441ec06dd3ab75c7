package workload

import (
	"fmt"
	"slices"
	"strings"
)

// Difference names the first few records that differ.
func Difference[K, V comparable](there, want map[K]V) string {
	var lines []string
	for at, r := range want {
		if got, ok := there[at]; !ok {
			lines = append(lines, fmt.Sprintf("%v is missing, want %+v", at, r))
		} else if got != r {
			lines = append(lines, fmt.Sprintf("%v is %+v, want %+v", at, got, r))
		}
	}
	for at, r := range there {
		if _, ok := want[at]; !ok {
			lines = append(lines, fmt.Sprintf("%v is there: %+v", at, r))
		}
	}
	slices.Sort(lines)
	if n := len(lines); n > 5 {
		lines = append(lines[:5], fmt.Sprintf("and %d more", n-5))
	}
	return "\n  " + strings.Join(lines, "\n  ")
}
