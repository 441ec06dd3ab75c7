package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// version is a version in several formats. In each, a later commit is an upgrade: v1.2.0-rc1 precedes v1.2.0, which
// precedes the 4th commit after it. Without a tag, the commit time decides.
type version struct {
	files string
	deb   string // 1.2.0~rc1, 1.2.0+4.0123abc; RPM compares them like Debian
	apk   string // 1.2.0_rc1, 1.2.0_p4
}

// described matches git describe --tags --dirty: a tag, commits after it, a modified working tree.
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

func (v version) of(format string) (string, error) {
	switch format {
	case "deb", "rpm":
		return v.deb, nil
	case "apk":
		return v.apk, nil
	}
	return "", fmt.Errorf("unknown package format %q: expected deb, rpm or apk", format)
}
