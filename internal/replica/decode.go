package replica

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"holdfast/internal/errcode"
)

// Everybody who can write to a target can change its restore points and its marker. So this file is the only place that
// decodes them, and it accepts nothing that Holdfast does not write.

const (
	// maxPoint limits a restore point's size. A point with all services' databases has less than 2 KiB.
	maxPoint = 64 << 10
	// maxMarker limits the marker's size. A marker has less than 1 KiB.
	maxMarker = 4 << 10
	// maxAlso limits other files. A secrets file has some KiB.
	maxAlso = 1 << 20
	// maxDatabase is SQLite's limit: 2^32 - 2 pages, 64 KiB each (sqlite.org/limits.html).
	maxDatabase = (1<<32 - 2) << 16
)

// Names are the files that a restore point may contain.
type Names struct {
	Databases []string // file names, e.g. buckets.db
	Also      []string // names in Options.Also, e.g. secrets.toml
}

// The patterns allow no separator, dot segment, NUL or drive, so a matching name stays in its folder on every system.
// Names limits databases and other files further.
var (
	pointPattern    = regexp.MustCompile(`^points/[0-9a-f]{16}-[0-9]{13}\.json$`)
	databasePattern = regexp.MustCompile(`^[a-z][a-z0-9]{0,31}\.db$`)
	alsoPattern     = regexp.MustCompile(`^[a-z][a-z0-9]{0,31}(\.[a-z]{1,8})?$`)
	runPattern      = regexp.MustCompile(`^[0-9A-HJKMNP-TV-Z]{26}$`)           // ULID
	idPattern       = regexp.MustCompile(`^[A-Z2-7]{26}$`)                     // rand.Text
	uniquePattern   = regexp.MustCompile(`^[A-Z2-7]{26}(` + encrypted + `)?$`) // rand.Text
)

// check returns an error if a point contains a file that is not in n. The point's name is in the error.
func (n Names) check(name string, p Point) error {
	for _, file := range slices.Sorted(maps.Keys(p.Files)) {
		if !slices.Contains(n.Databases, file) {
			return unknownError(name, "database")
		}
	}
	for _, file := range slices.Sorted(maps.Keys(p.Also)) {
		if !slices.Contains(n.Also, file) {
			return unknownError(name, "file")
		}
	}
	return nil
}

func unknownError(name, what string) error {
	return damagedError(name, "names a "+what+" that this release does not have: it may be forged, or a later release made it", nil)
}

// decodePoint decodes the content of the object name.
func decodePoint(name string, text []byte) (p Point, err error) {
	if !decodeExactly(text, &p) {
		return Point{}, damagedError(name, "is damaged, or a later release made it: it is not a restore point as this release writes it", nil)
	}
	if reason := p.invalid(name); reason != "" {
		return Point{}, damagedError(name, "is damaged: "+reason, nil)
	}
	return p, nil
}

// decodeExactly reports whether text is exactly the text that this release writes for v. This refuses unknown and repeated
// members, other capitalization, spaces and trailing data, which two decoders may understand differently.
func decodeExactly(text []byte, v any) bool {
	if json.Unmarshal(text, v) != nil {
		return false
	}
	again, err := json.Marshal(v)
	return err == nil && bytes.Equal(again, text)
}

// invalid returns why p cannot be the point in the object name, or "".
func (p Point) invalid(name string) string {
	switch {
	case p.Number == 0 || p.Number >= 1<<63:
		return "its number is out of range"
	case p.Time.Before(time.Unix(0, 0)) || pointName(p) != name:
		return "its number and time differ from its name"
	case p.Backup != nil && (p.Backup.Databases < 0 || p.Backup.Sent < 0 || p.Backup.Took < 0):
		return "a size or duration is negative"
	case p.Key.IsZero() != (p.Repository == "") || p.Repository != "" && !idPattern.MatchString(p.Repository):
		return "its repository or key is invalid"
	}
	for file, position := range p.Files {
		switch {
		case !databasePattern.MatchString(file):
			return "the name of a database is invalid"
		case !runPattern.MatchString(position.Run):
			return "the run of " + file + " is invalid"
		case position.TXID == 0:
			return "the transaction of " + file + " is 0"
		case !p.Key.IsZero() && (position.Sum == 0 || position.Size <= 0) || position.Size > maxDatabase:
			return "the checksum or size of " + file + " is invalid"
		}
	}
	for file, object := range p.Also {
		unique, isBelow := strings.CutPrefix(object, alsoPrefix+file+"/")
		switch {
		case !alsoPattern.MatchString(file):
			return "the name of a file is invalid"
		case !isBelow || !uniquePattern.MatchString(unique):
			return "the object of " + file + " is not below " + alsoPrefix + file + "/"
		}
	}
	return ""
}

// decodeMarker decodes and verifies the marker. Whether its key is trusted is another question: see Trust.
func decodeMarker(text []byte) (m marker, err error) {
	// A marker in another format may have other members.
	var version struct {
		Format int `json:"format"`
	}
	if json.Unmarshal(text, &version) == nil && version.Format > format {
		return m, errcode.Newf(errcode.Unavailable, "%s: format %d, expected %d: use the release that wrote it, or a later one", MarkerName, version.Format, format)
	}
	switch isKnown := decodeExactly(text, &m) && m.Server != "" && (m.Kind == "" || m.Kind == backupKind); {
	case isKnown && m.Format == unsignedFormat && m.Repository == "" && m.Key.IsZero() && m.Signature == "":
		return m, nil
	case !isKnown || m.Format != format || !idPattern.MatchString(m.Repository) || m.Key.IsZero():
		return marker{}, damagedError(MarkerName, "is damaged", nil)
	case !m.isIntact():
		return marker{}, damagedError(MarkerName, "is damaged or was replaced: its signature is wrong", nil)
	}
	return m, nil
}

// limited returns a writer that fails after maxBytes.
func limited(name string, w io.Writer, maxBytes int64) io.Writer {
	return &limitedWriter{name, w, maxBytes}
}

type limitedWriter struct {
	name string // of the object, for the error
	w    io.Writer
	left int64 // bytes
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, damagedError(l.name, "is "+tooLarge, nil)
	}
	return l.w.Write(p)
}

const tooLarge = "larger than it can be"
