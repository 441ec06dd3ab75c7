package replica

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/superfly/ltx"

	"holdfast/internal/errcode"
)

// Point is a restore point: one moment in all databases. It is the JSON of an object in points/.
type Point struct {
	Number uint64 `json:"number"` // 1 for the first, then increasing; never reused
	// Time is when the databases were read. The point includes writes acknowledged before.
	Time  time.Time           `json:"time"`
	Files map[string]Position `json:"files"`          // last transaction of each database, by file name
	Also  map[string]string   `json:"also,omitempty"` // objects of other files, by Options.Also's names

	Backup *BackupSize `json:"backup,omitempty"` // nil for replicas

	// Repository and Key are the same as in the marker. Key signed the point and everything that it needs. Both are zero
	// in a repository without signatures, which no server writes.
	Repository string    `json:"repository,omitempty"`
	Key        PublicKey `json:"key,omitzero"`

	// Encrypted says whether all objects are encrypted. Unknown in a point without a signature.
	Encrypted bool `json:"encrypted,omitempty"`
}

// Contents returns the names of the databases and other files in the point, databases first.
func (p Point) Contents() []string {
	return slices.Concat(slices.Sorted(maps.Keys(p.Files)), slices.Sorted(maps.Keys(p.Also)))
}

// suffix returns the end of the names of the point's objects.
func (p Point) suffix() string {
	if p.Encrypted {
		return encrypted
	}
	return ""
}

// keys returns the keys that open the point's objects.
func (p Point) keys(identities []age.Identity) keys {
	return keys{identities: identities, repository: p.Repository, signer: p.Key}
}

// BackupSize describes a backup, for lists of backups.
type BackupSize struct {
	Databases int64         `json:"databases"` // bytes
	Sent      int64         `json:"sent"`      // bytes added to the target, compressed and encrypted
	Took      time.Duration `json:"took"`      // from reading the databases until everything was sent
}

// Duration returns Took, rounded for people.
func (b *BackupSize) Duration() string {
	if b.Took < time.Second {
		return b.Took.Round(time.Millisecond).String()
	}
	return b.Took.Round(time.Second).String()
}

// Position is a moment in a database: a transaction in a run.
type Position struct {
	Run  string   `json:"run"` // see chain.run
	TXID ltx.TXID `json:"txid"`

	// Sum is the checksum of all pages. An interrupted backup may have signed other pages with the same run and
	// transaction. Both are zero in a point without a signature.
	Sum  ltx.Checksum `json:"sum,omitzero"`
	Size int64        `json:"size,omitzero"` // of the database in bytes
}

// MarkerName is the object that names a target's owner.
const MarkerName = "holdfast-replica.json"

const (
	pointsPrefix = "points/"
	filesAll     = "files/"
	alsoPrefix   = "also/"
)

// marker is the JSON of MarkerName.
type marker struct {
	Format int    `json:"format"`
	Server string `json:"server"` // ID of the data folder
	// Holder identifies the process: another process with a copy of the data folder has the same Server.
	Holder string `json:"holder"`
	// Kind is "" for a replica and backupKind for backups.
	Kind string `json:"kind,omitempty"`

	// Repository is a random ID, made when the target was empty.
	Repository string `json:"repository,omitempty"`
	// Key signs the marker and all objects: a server with another key needs another target.
	Key       PublicKey `json:"key,omitzero"`
	Signature string    `json:"signature,omitempty"` // base64
}

func (m marker) isSigned() bool { return m.Format != unsignedFormat }

const (
	format = 2
	// unsignedFormat has no signatures. It can only be restored.
	unsignedFormat = 1
	backupKind     = "backups"
)

// filesPrefix returns the prefix of a run's objects.
func filesPrefix(database, run string) string { return filesAll + database + "/" + run + "/" }

// objectName returns the object's name without the suffix.
func (f ltxFile) objectName(database string) string {
	return filesPrefix(database, f.run) + rangeName(f.from, f.to) + ".ltx"
}

// pointName returns a point's object name. Points are not encrypted, because the server must read them to delete old
// points; they reveal no more than object names do.
func pointName(p Point) string {
	return fmt.Sprintf("%s%016x-%013d.json", pointsPrefix, p.Number, p.Time.UnixMilli())
}

// listedPoint is a point as its object's name describes it; nobody verified it.
type listedPoint struct {
	name   string
	number uint64
	time   time.Time
}

// parsePointName reverses pointName.
func parsePointName(name string) (p listedPoint, ok bool) {
	if !pointPattern.MatchString(name) {
		return p, false
	}
	number, milliseconds, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(name, pointsPrefix), ".json"), "-")
	n, err := strconv.ParseUint(number, 16, 64)
	ms, timeErr := strconv.ParseInt(milliseconds, 10, 64)
	return listedPoint{name, n, time.UnixMilli(ms)}, err == nil && timeErr == nil
}

// listPoints returns the target's points by number. Their names prove nothing.
func listPoints(ctx context.Context, t Target) (points []listedPoint, err error) {
	names, err := t.List(ctx, pointsPrefix)
	for _, name := range names {
		if p, ok := parsePointName(name); ok {
			points = append(points, p)
		}
	}
	return points, err
}

// Listed is a point that was not read.
type Listed struct {
	Number uint64
	Time   time.Time // in milliseconds, so it may be before Point.Time
}

// Content is a target's content, not verified.
type Content struct {
	Server string    // ID of the data folder that wrote it
	Key    PublicKey // zero: not signed
	Points []Listed  // oldest first
}

// Points returns up to limit verified points, newest first; 0 returns all. known are the files that a point may
// contain, and trust says whose signatures count. It returns errcode.NotFound if there is no replica or backup, and
// Denied if trust does not accept the repository. After another error it returns the points that it had read until then,
// which are newer than the point that failed.
func Points(ctx context.Context, t Target, known Names, trust Trust, limit int) (all []Point, err error) {
	from, err := openReader(ctx, t, known, trust)
	if err != nil {
		return nil, err
	}
	listed, err := listPoints(ctx, t)
	if err != nil {
		return nil, err
	}
	for _, l := range slices.Backward(listed) {
		if limit > 0 && len(all) == limit {
			break
		}
		p, err := from.point(ctx, l.name)
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
	return all, nil
}

// Inspect returns a target's restore points, or errcode.NotFound if there is no replica.
func Inspect(ctx context.Context, t Target) (c Content, err error) {
	m, err := readMarker(ctx, t)
	if err != nil {
		return c, err
	}
	points, err := listPoints(ctx, t)
	for _, p := range points {
		c.Points = append(c.Points, Listed{p.number, p.time})
	}
	c.Server, c.Key = m.Server, m.Key
	return c, err
}

// reader reads a repository that other people may have changed.
type reader struct {
	target Target
	known  Names // a point that contains other files is refused
	marker marker
}

// openReader reads the marker and checks whether it is trusted.
func openReader(ctx context.Context, t Target, known Names, trust Trust) (r reader, err error) {
	m, err := readMarker(ctx, t)
	if err != nil {
		return r, err
	}
	return reader{t, known, m}, trust.check(MarkerName, m.Key, m.Repository)
}

// point verifies and decodes a restore point.
func (r reader) point(ctx context.Context, name string) (p Point, err error) {
	var content bytes.Buffer
	k := keys{repository: r.marker.Repository, signer: r.marker.Key}
	if err := get(ctx, r.target, k, name, limited(name, &content, maxPoint)); err != nil {
		return p, err
	}
	if p, err = decodePoint(name, content.Bytes()); err != nil {
		return p, err
	}
	if p.Repository != r.marker.Repository || p.Key != r.marker.Key {
		return p, damagedError(name, "belongs to another repository", nil)
	}
	return p, r.known.check(name, p)
}

// get writes an object's verified content to w, which must not be used if get fails.
func get(ctx context.Context, t Target, k keys, name string, w io.Writer) error {
	r, err := t.Get(ctx, name)
	if errcode.Is(err, errcode.NotFound) {
		return damagedError(name, "is missing", err)
	}
	if err != nil {
		return err
	}
	defer r.Close()
	return k.open(name, r, w)
}

// claim makes the target mine. It returns the signed marker with the repository's ID. It fails if the target belongs to
// another server, or contains other objects.
func claim(ctx context.Context, t Target, mine marker, key SigningKey) (marker, error) {
	mark, err := readMarker(ctx, t)
	switch {
	case errcode.Is(err, errcode.NotFound):
		mark.Repository, err = rand.Text(), checkEmpty(ctx, t)
	case err != nil:
	case mark.Server != mine.Server:
		err = errcode.New(errcode.Denied, "the target holds another server's data: "+OtherServerFix)
	case mark.Kind != mine.Kind:
		err = errcode.New(errcode.Denied, "the target holds "+kindName(mark)+": a server's replica and backups need separate URLs")
	case !mark.isSigned():
		err = errcode.New(errcode.Denied, "the target was written by a release that did not sign: "+OtherServerFix+"; holdfast restore --unsigned still reads it")
	case mark.Key != key.Public():
		err = errcode.Newf(errcode.Denied, "the target was signed with another key, %s: %s, or bring back the data folder's key", mark.Key, OtherServerFix)
	}
	if err != nil {
		return mine, err
	}
	mine.Repository = mark.Repository
	mine = mine.sign(key)
	text, err := json.Marshal(mine)
	if err != nil {
		return mine, err
	}
	if err := t.Put(ctx, MarkerName, bytes.NewReader(text)); err != nil {
		return mine, err
	}
	return mine, checkHolder(ctx, t, mine)
}

// OtherServerFix is advice for a target with another server's data.
const OtherServerFix = "set another URL, e.g. with another prefix"

func kindName(m marker) string { return cmp.Or(m.Kind, "a replica") }

// checkHolder fails if the marker is missing, because the replica was deleted or a disk is not mounted.
func checkHolder(ctx context.Context, t Target, mine marker) error {
	mark, err := readMarker(ctx, t)
	switch {
	case errcode.Is(err, errcode.NotFound):
		return errcode.Wrap(errcode.Unavailable, "missing from the target: "+MarkerName, err)
	case err == nil && mark != mine:
		return errcode.New(errcode.Denied, "another server writes to the replica, perhaps with a copy of this data folder")
	}
	return err
}

// checkEmpty fails if the target contains any object.
func checkEmpty(ctx context.Context, t Target) error {
	return t.Walk(ctx, "", func(string) error {
		return errcode.Newf(errcode.Denied, "the target contains objects but no %s: expected an empty target", MarkerName)
	})
}

// readMarker returns the marker, or errcode.NotFound.
func readMarker(ctx context.Context, t Target) (m marker, err error) {
	r, err := t.Get(ctx, MarkerName)
	if err != nil {
		return m, err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(NewReader(ctx, r), maxMarker))
	if err != nil {
		return m, damagedError(MarkerName, "cannot be read", err)
	}
	return decodeMarker(text)
}
