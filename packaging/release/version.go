package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// version is one version as different programs write it. Later commits are upgrades
// for all of them: v1.2.0 is 1.2.0, v1.2.0-rc1 comes before it, the 4th commit after
// it comes after it. Without a tag, the time of the commit decides.
type version struct {
	files string // in names of files
	deb   string // 1.2.0~rc1, 1.2.0+4.0123abc; RPM compares them in the same way
	apk   string // 1.2.0_rc1, 1.2.0_p4
}

// described is what git describe --tags --dirty prints for a tag, the commits after
// it, or a working tree with changes.
var described = regexp.MustCompile(`^v([0-9]+(?:\.[0-9]+)*)(-[A-Za-z][A-Za-z0-9.]*)??(?:-([0-9]+)-g([0-9a-f]+))?(-dirty)?$`)

func parseVersion(text, commit string, at time.Time) version {
	m := described.FindStringSubmatch(text)
	if m == nil {
		stamp := at.UTC().Format("20060102150405")
		return version{files: text, deb: "0~" + stamp + "." + commit, apk: "0_git" + stamp}
	}
	v := version{files: strings.TrimPrefix(text, "v"), deb: m[1], apk: m[1]}
	if pre := strings.TrimPrefix(m[2], "-"); pre != "" {
		v.deb += "~" + pre
		v.apk += "_" + strings.ReplaceAll(pre, ".", "")
	}
	if m[3] != "" {
		v.deb += "+" + m[3] + "." + m[4]
		v.apk += "_p" + m[3]
	}
	if m[5] != "" {
		v.deb += "+dirty"
	}
	return v
}

// of returns the version for a kind of package.
func (v version) of(format string) (string, error) {
	switch format {
	case "deb", "rpm":
		return v.deb, nil
	case "apk":
		return v.apk, nil
	}
	return "", fmt.Errorf("unknown kind of package %q: expected deb, rpm or apk", format)
}
