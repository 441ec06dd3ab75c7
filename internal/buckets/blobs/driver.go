package blobs

import (
	"context"
	"io"
	"iter"
	"strings"
	"time"

	"holdfast/internal/errcode"
)

// Driver stores bodies on one storage node. It is safe for concurrent use.
//
// Errors have these codes:
//   - errcode.NotFound: the node has no body at the path;
//   - errcode.Invalid: the arguments are wrong (path, size, range);
//   - errcode.Unavailable: the node does not work now. If it has no space for the body,
//     the error is ErrNotEnoughSpace too.
//
// An error of a reader that a caller passed in, or of its context, is in the chain of the
// returned error and has no code of the driver.
type Driver interface {
	// Put stores a body and replaces the one at the path, if any. The body is durable when
	// Put returns without an error. Otherwise nothing of it is visible, even if the process
	// is killed. A size of -1 means unknown; otherwise a body of another size is Invalid.
	// Put returns the number of bytes.
	Put(ctx context.Context, path string, body io.Reader, size int64) (int64, error)
	// Get reads length bytes from offset, or up to the end if length is -1. An offset
	// beyond the end is Invalid; a range that reaches beyond the end is cut. A body of
	// size 0 can be read from offset 0.
	Get(ctx context.Context, path string, offset, length int64) (Reader, error)
	// Stat returns the size and time of a body.
	Stat(ctx context.Context, path string) (Info, error)
	// Delete removes a body, durably. It succeeds if there is none. It also removes
	// temporary files that Walk returned.
	Delete(ctx context.Context, path string) error
	// Copy makes the body at one path available at another without reading it. It returns
	// an error with errors.ErrUnsupported in its chain if the node cannot do that.
	Copy(ctx context.Context, from, to string) error
	// Walk returns all bodies with paths after the given one, in byte order of their
	// paths. It returns temporary files of killed processes too. What is written or
	// deleted meanwhile may or may not be returned. Walk ends after an error.
	Walk(ctx context.Context, after string) iter.Seq2[Info, error]
	// Space returns the size of the node. It fails if the node cannot be read, so it also
	// serves as a health check.
	Space(ctx context.Context) (Space, error)
	// Close releases the resources of the driver.
	Close() error
}

// Reader reads a part of a body.
type Reader interface {
	io.ReadCloser
	// Size returns the size of the whole body.
	Size() int64
}

// Info describes a file on a node.
type Info struct {
	Path     string
	Size     int64
	Modified time.Time
	// Temporary is true for the file of an unfinished Put: one that is in progress, or
	// that was killed. It may be deleted when it is old.
	Temporary bool
}

// Space is the size of a node in bytes; -1 means unknown or unlimited.
type Space struct {
	Total    int64
	Free     int64
	ReadOnly bool // bodies can be read but not written, as far as is known
}

// Unlimited is the space of a node that does not report any.
var Unlimited = Space{Total: -1, Free: -1}

// TemporaryPrefix begins the names of temporary files.
const TemporaryPrefix = ".tmp-"

// MarkerName is the name of the file in the root of a node that has the node's ID. It
// prevents writes to the wrong disk, such as the mount point of one that is not mounted.
const MarkerName = ".holdfast-node"

// Limits of paths.
const (
	maxPath    = 512
	maxSegment = 200
)

var (
	errPath  = errcode.New(errcode.Invalid, `path: expected segments of a-z, A-Z, 0-9, ".", ",", "_" and "-" that do not begin with ".", joined by "/"`)
	errRange = errcode.New(errcode.Invalid, "range: offset is beyond the end of the body")
)

// ErrRange returns the error for an offset beyond the end of a body.
func ErrRange() error { return errRange }

// CheckPath rejects paths that are not valid on every node.
func CheckPath(path string) error {
	if path == "" || len(path) > maxPath {
		return errPath
	}
	for segment := range strings.SplitSeq(path, "/") {
		if !isSegment(segment) {
			return errPath
		}
	}
	return nil
}

// CheckFile is CheckPath for Delete, which accepts temporary files too.
func CheckFile(path string) error {
	folder, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		folder, name = path[:i+1], path[i+1:]
	}
	return CheckPath(folder + strings.TrimPrefix(name, TemporaryPrefix))
}

// IsTemporary reports whether the last segment of a path is a name of a temporary file.
func IsTemporary(path string) bool {
	return strings.HasPrefix(path[strings.LastIndexByte(path, '/')+1:], TemporaryPrefix)
}

func isSegment(s string) bool {
	if s == "" || len(s) > maxSegment || s[0] == '.' {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == ',', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
