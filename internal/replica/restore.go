package replica

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/superfly/ltx"

	"holdfast/internal/db/sqlitedb"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
)

// Restoring says which point to restore, from where, and whom to trust. Target, Known, Trust and Into are required;
// Look and Choose do not need Into.
type Restoring struct {
	Target     Target
	Known      Names          // a restore point that contains other files is refused
	Trust      Trust          // whose signatures count
	Identities []age.Identity // if there are any, objects that are not encrypted are refused

	// Into is an existing folder that only this process writes. It may contain other files. Names from the target are
	// resolved below it.
	Into string

	// At selects the newest point at or before a time; zero selects the newest.
	At time.Time

	// AtLeast is a point that the source published: a newest point before it is refused.
	AtLeast Expected

	// Only selects databases; nil means all. A database that the point does not contain is errcode.NotFound. Other files
	// are always restored.
	Only []string

	Progress func(name string) // called with each database before it is restored, one at a time; may be nil

	// Ignored, if set, is called with the damage of each file that the restore did without, because other files lead to
	// the same place. Somebody else may have added such a file.
	Ignored func(damage error)
}

// Found is a chosen restore point.
type Found struct {
	Point Point
	Until time.Time // the source acknowledged writes at least until then; not before Point.Time
}

// Look chooses the restore point like Restore, and fails if an object is missing.
func Look(ctx context.Context, r Restoring) (f Found, err error) {
	newest, chosen, err := r.Choose(ctx)
	if err != nil {
		return f, err
	}
	if err := r.CheckIdentities(ctx, chosen); err != nil {
		return f, err
	}
	f = Found{Point: chosen, Until: newest.Time}
	names, err := listWithoutBodies(ctx, r.Target)
	if err != nil {
		return f, err
	}
	files := filesOf(names)
	for name, position := range chosen.Files {
		if _, err := files.leadingTo(name, position, r.suffix()); err != nil {
			return f, err
		}
	}
	for _, object := range chosen.Also {
		if _, ok := slices.BinarySearch(names, object); !ok {
			return f, damagedError(object, "is missing", nil)
		}
	}
	for name, position := range newest.Files {
		at, err := r.lastChange(ctx, newest.keys(r.Identities), files, name, position)
		if err != nil {
			return f, err
		}
		if at.After(f.Until) {
			f.Until = at
		}
	}
	return f, nil
}

// lastChange returns zero if there are no changes outside all points.
func (r Restoring) lastChange(ctx context.Context, k keys, files series, database string, position Position) (at time.Time, err error) {
	last := ""
	for _, key := range slices.Sorted(maps.Keys(files)) { // run names begin with their time
		name, run, _ := strings.Cut(key, "/")
		if name != database || run < position.Run || strings.TrimSuffix(run, encrypted)+r.suffix() != run {
			continue
		}
		for _, f := range files[key].sorted {
			if run > position.Run+r.suffix() || f.to > position.TXID {
				last = f.name
			}
		}
	}
	if last == "" {
		return at, nil
	}
	var begin head
	if err := get(ctx, r.Target, k, last, &begin); err != nil {
		return at, ctx.Err() // the object belongs to no restore point, so it may be incomplete
	}
	h, _, err := ltx.DecodeHeader(bytes.NewReader(begin))
	if err != nil {
		return at, nil //nolint:nilerr // likewise
	}
	return time.UnixMilli(h.Timestamp), nil
}

// Restored says which files were written.
type Restored struct {
	Point  Point    // the restored point
	Newest Point    // newest point in the target
	Files  []string // Restoring.Into joined with their names: first the databases, then the others, each sorted
}

// Restore writes and checks a replica's databases and other files as of a restore point. If it fails, it leaves no
// unchecked database, but the files in Restored.Files are complete. It overwrites nothing: a database that exists is
// errcode.Conflict. NotFound means that there is
// no such point; Denied, that trust or AtLeast refuses the target; Invalid, that the identities do not fit;
// Unavailable, that an object is damaged or cannot be read.
func Restore(ctx context.Context, r Restoring) (done Restored, err error) {
	if done.Newest, done.Point, err = r.Choose(ctx); err != nil {
		return done, err
	}
	if err := r.CheckIdentities(ctx, done.Point); err != nil {
		return done, err
	}
	var names []string
	for name := range done.Point.Files {
		if r.Only == nil || slices.Contains(r.Only, name) {
			names = append(names, name)
		}
	}
	for _, name := range r.Only {
		if !slices.Contains(names, name) {
			return done, errcode.Newf(errcode.NotFound, "the restore point contains no database %q", name)
		}
	}
	slices.Sort(names)
	done.Files, err = r.fill(ctx, done.Point, names)
	return done, err
}

// fill writes the databases and all other files. The decoder of points accepts no name that leaves the folder; fill does
// not rely on it.
func (r Restoring) fill(ctx context.Context, p Point, databases []string) (files []string, err error) {
	k := p.keys(r.Identities)
	into, err := durable.OpenFolder(r.Into)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, into.Close()) }()
	for _, name := range databases {
		if r.Progress != nil {
			r.Progress(name)
		}
		if err := r.restore(ctx, k, p.Files[name], into, name); err != nil {
			return files, fmt.Errorf("restore %s: %w", name, err)
		}
		files = append(files, filepath.Join(r.Into, name))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Also)) {
		err := into.Create(name, func(w io.Writer) error {
			return get(ctx, r.Target, k, p.Also[name], limited(p.Also[name], w, maxAlso))
		})
		if err != nil {
			return files, fmt.Errorf("restore %s: %w", name, err)
		}
		files = append(files, filepath.Join(r.Into, name))
	}
	return files, nil
}

// Choose verifies and returns the target's newest point and the point that At selects. Its errors are like Restore's.
func (r Restoring) Choose(ctx context.Context) (newest, chosen Point, err error) {
	from, err := openReader(ctx, r.Target, r.Known, r.Trust)
	if err != nil {
		if errcode.Is(err, errcode.NotFound) {
			err = errcode.New(errcode.NotFound, "found neither a replica nor backups: it contains no "+MarkerName+"; check the folder, or the bucket and its prefix")
		}
		return newest, chosen, err
	}
	points, err := listPoints(ctx, r.Target)
	if err != nil {
		return newest, chosen, err
	}
	if len(points) == 0 {
		return newest, chosen, errcode.New(errcode.NotFound, "the replica has no restore point")
	}
	at := len(points) - 1
	for !r.At.IsZero() && at >= 0 && points[at].time.After(r.At) {
		at--
	}
	if at < 0 {
		return newest, chosen, errcode.Newf(errcode.NotFound, "no restore point at or before %s: the first is from %s",
			r.At.Format(time.RFC3339), points[0].time.UTC().Format(time.RFC3339Nano))
	}
	if chosen, err = from.point(ctx, points[at].name); err != nil {
		return newest, chosen, err
	}
	newest, err = from.point(ctx, points[len(points)-1].name)
	if _, isDamaged := errors.AsType[damage](err); isDamaged && at < len(points)-1 {
		newest, err = chosen, nil // a forged newest point does not prevent the restore of an earlier point
	}
	return newest, chosen, cmp.Or(err, r.AtLeast.check(newest))
}

// suffix returns the end of the names of the objects to read.
func (r Restoring) suffix() string {
	if len(r.Identities) > 0 {
		return encrypted
	}
	return ""
}

// errNoIdentity asks for the private key.
var errNoIdentity = errcode.New(errcode.Invalid, "the data is encrypted: name the file with its private key by --identity FILE")

// CheckIdentities returns an error unless the identities fit the point: none for a point that is not encrypted.
func (r Restoring) CheckIdentities(ctx context.Context, p Point) error {
	switch isEncrypted := len(r.Identities) > 0; {
	case p.Key.IsZero(): // the point does not say whether it is encrypted
	case p.Encrypted && !isEncrypted:
		return errNoIdentity
	case !p.Encrypted && isEncrypted:
		return plainError(pointName(p))
	}
	for _, name := range slices.Sorted(maps.Values(p.Also)) {
		if !strings.HasSuffix(name, encrypted) {
			continue
		}
		if len(r.Identities) == 0 {
			return errNoIdentity
		}
		err := get(ctx, r.Target, p.keys(r.Identities), name, io.Discard)
		if errcode.Is(err, errcode.Invalid) {
			return errcode.Newf(errcode.Invalid, "the private key does not match: %s was encrypted for other recipients", name)
		}
	}
	return nil // damage is reported later, with the object's name
}

// head keeps an LTX header's bytes and discards the rest.
type head []byte

func (h *head) Write(p []byte) (int, error) {
	if n := ltx.HeaderSize - len(*h); n > 0 {
		*h = append(*h, p[:min(n, len(p))]...)
	}
	return len(p), nil
}

// restore writes a database under a temporary name, checks it and renames it.
func (r Restoring) restore(ctx context.Context, k keys, position Position, into *durable.Folder, database string) error {
	if exists, err := into.Exists(database); err != nil || exists {
		return cmp.Or(err, error(errcode.Newf(errcode.Conflict, "%s exists already", filepath.Join(r.Into, database))))
	}
	names, err := r.Target.List(ctx, filesPrefix(database, position.Run))
	if err != nil {
		return err
	}
	// The name marks unchecked content in case the process is killed.
	unchecked := database + uncheckedSuffix
	if err := into.RemoveAll(unchecked); err != nil {
		return err
	}
	defer func() { _ = into.Remove(unchecked) }()
	if err := r.writeUnchecked(ctx, k, position, filesOf(names), destination{into, database}); err != nil {
		return err
	}
	path, err := into.FileName(unchecked)
	if err != nil {
		return err
	}
	problems, err := sqlitedb.VerifyFile(ctx, path)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return errcode.Newf(errcode.Unavailable, "the restored database is damaged: %s", problems[0])
	}
	return into.Move(unchecked, database)
}

// uncheckedSuffix ends the name of a database that was not checked.
const uncheckedSuffix = ".restoring"

// destination is a database's name in a folder.
type destination struct {
	folder   *durable.Folder
	database string
}

// writeUnchecked writes a database from the files that lead to a position. A damaged file with several transactions may be
// a forgery that hides good files, so it tries again without the file. If that fails, the error is the first damage.
func (r Restoring) writeUnchecked(ctx context.Context, k keys, position Position, files series, to destination) error {
	key := seriesKey(to.database, position.Run, r.suffix())
	var ignored []error
	for {
		chosen, err := files.leadingTo(to.database, position, r.suffix())
		if err == nil {
			err = to.folder.Create(to.database+uncheckedSuffix, func(w io.Writer) error { return r.write(ctx, k, steps{position, chosen}, to.folder, w) })
		}
		if err == nil {
			break
		}
		ignored = append(ignored, err)
		bad, isDamaged := errors.AsType[damage](err)
		rest := files[key].which(func(f object) bool { return f.name != bad.object || f.from == f.to })
		if !isDamaged || len(rest.sorted) == len(files[key].sorted) {
			return ignored[0]
		}
		files[key] = rest
	}
	for _, err := range ignored {
		if r.Ignored != nil {
			r.Ignored(err)
		}
	}
	return nil
}

// write fetches the objects into scratch files, checks them, and writes the database that they lead to.
func (r Restoring) write(ctx context.Context, k keys, to steps, folder *durable.Folder, w io.Writer) error {
	var files []io.Reader
	for i, object := range to.objects {
		name := object.name
		temporary := fmt.Sprintf(".restoring-%d.ltx", i)
		file, err := folder.Scratch(temporary)
		if err != nil {
			return err
		}
		defer func() { _ = errors.Join(file.Close(), folder.Remove(temporary)) }()
		if err := get(ctx, r.Target, k, name, file); err != nil {
			return err
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if err := checkLTX(file, name); err != nil {
			return err
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		files = append(files, newBuffered(file))
	}
	return merge(ctx, files, to, w)
}

// steps are the objects that lead to a position.
type steps struct {
	Position
	objects []object
}

// merge writes the database at a position. It fails if the files lead to another database.
func merge(ctx context.Context, files []io.Reader, to steps, w io.Writer) error {
	read, write := io.Pipe()
	defer func() { _ = read.Close() }()
	merged := make(chan error, 1)
	go func() {
		c, err := ltx.NewCompactor(write, files)
		if err == nil {
			err = c.Compact(ctx)
		}
		_ = write.CloseWithError(err)
		merged <- err
	}()
	// This compares the checksum of all pages with that in the last file.
	last := to.objects[len(to.objects)-1].name
	merging := ltx.NewDecoder(newBuffered(read))
	if to.Size > 0 {
		w = limited(last, w, to.Size)
	}
	err := merging.DecodeDatabaseTo(w)
	if err != nil {
		read.CloseWithError(err)
	}
	if mergeErr := <-merged; mergeErr != nil && err == nil {
		err = mergeErr
	}
	if err == nil && to.Sum != 0 && merging.Trailer().PostApplyChecksum != to.Sum {
		err = errors.New("its pages are not the pages at the restore point")
	}
	if err != nil {
		return damagedError(last, "and the objects before it do not produce the database of the restore point", err)
	}
	return nil
}

// checkLTX checks the sizes in an LTX file before another package allocates memory for them, and that the file contains
// the transactions in its name.
func checkLTX(file io.Reader, name string) error {
	in := bufio.NewReaderSize(file, 64<<10)
	h, _, err := ltx.DecodeHeader(in)
	if err != nil {
		return damagedError(name, "is not an LTX file", err)
	}
	if want := rangeName(h.MinTXID, h.MaxTXID) + ".ltx"; path.Base(strings.TrimSuffix(name, encrypted)) != want {
		return damagedError(name, "contains other transactions than its name says", nil)
	}
	// A compressed page of random data is a little larger than the page (LZ4 block format: a byte per 255, and 16).
	largest := h.PageSize + h.PageSize/255 + 16
	var head [ltx.PageHeaderSize + 4]byte
	for pages := uint32(0); ; pages++ {
		if _, err := io.ReadFull(in, head[:ltx.PageHeaderSize]); err != nil {
			return damagedError(name, "is damaged: it ends within its pages", err)
		}
		var page ltx.PageHeader
		if err := page.UnmarshalBinary(head[:]); err != nil {
			return damagedError(name, "is damaged: a page has an invalid header", err)
		}
		if page.IsZero() {
			return nil
		}
		if _, err := io.ReadFull(in, head[ltx.PageHeaderSize:]); err != nil {
			return damagedError(name, "is damaged: it ends within its pages", err)
		}
		size := binary.BigEndian.Uint32(head[ltx.PageHeaderSize:])
		if page.Flags != ltx.PageHeaderFlagSize || size > largest || page.Pgno > h.Commit || pages >= h.Commit {
			return damagedError(name, "is damaged: a page has an invalid size or number", nil)
		}
		if _, err := in.Discard(int(size)); err != nil {
			return damagedError(name, "is damaged: it ends within its pages", err)
		}
	}
}

func newBuffered(r io.Reader) io.Reader { return bufio.NewReaderSize(r, 64<<10) }
