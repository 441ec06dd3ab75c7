package httpapi

import (
	"strconv"
	"strings"
)

// crashes reports whether a successful response's headers crash this client: Firefox for iOS 1 to 19 on a phone, e.g.
// "Firefox-iOS-Sync/18.0b1 (iPhone; iPhone OS 13.2) (Firefox)". Developer builds have major 0 or no number.
func crashes(userAgent string) bool {
	version, ok := strings.CutPrefix(userAgent, "Firefox-iOS-Sync/")
	if !ok {
		return false
	}
	version, system, _ := strings.Cut(version, " ")
	major, minor, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	return err == nil && 0 < n && n < 20 && strings.Contains(minor, "b") && strings.Contains(system, "iPhone OS ")
}
