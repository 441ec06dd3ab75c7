package maintenance

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"holdfast/internal/buckets"
	"holdfast/internal/durable"
	"holdfast/internal/errcode"
)

// Names of the files that sorters add, with numbers.
const (
	stateFile    = "audit.json"
	bodiesFile   = "audit-bodies"
	findingsFile = "audit-findings"
	sortedFile   = "audit-findings-sorted"
	againFile    = "audit-bodies-again"
)

// state is the progress of an audit, so that it continues after an interruption. Fields with a JSON name are saved.
type state struct {
	folder   string
	findings *os.File
	buffer   *bufio.Writer
	saved    time.Time
	finding  sync.Mutex // because nodes may be compared in parallel

	Verify bool          `json:"verify"`
	Node   string        `json:"node"`
	Level  int           `json:"level"`
	Grace  time.Duration `json:"grace"`

	Began    time.Time            `json:"began"`
	Listed   bool                 `json:"listed"` // the list of bodies is complete
	Bodies   int64                `json:"bodies"`
	Findings int64                `json:"findings"`
	Size     int64                `json:"size"` // bytes in the file of findings; the rest is from after the last save
	Nodes    map[string]*position `json:"nodes"`
}

// position is the progress on a node.
type position struct {
	After    string `json:"after"`  // last path
	Offset   int64  `json:"offset"` // offset of the next line in the list of bodies
	Copies   int64  `json:"copies"` // to compare
	Compared int64  `json:"compared"`
	Young    int64  `json:"young"` // unreferenced files within the grace period
	Done     bool   `json:"done"`
}

// load continues the saved audit if it had the same options and nodes, and otherwise begins anew.
func (a *audit) load() error {
	fresh := &state{folder: a.Folder, Verify: a.Verify, Node: a.Node, Level: a.Level, Grace: a.Grace, Began: a.Clock()}
	a.state = &state{folder: a.Folder}
	text, err := os.ReadFile(filepath.Join(a.Folder, stateFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	old := a.state
	if a.Restart || err != nil || json.Unmarshal(text, old) != nil || !old.Listed || !a.continues(old) {
		a.state = fresh
		return fresh.clear()
	}
	return old.open()
}

// continues reports whether the saved state fits.
func (a *audit) continues(old *state) bool {
	for id := range old.Nodes {
		if _, ok := a.nodes[id]; !ok {
			return false
		}
	}
	info, err := os.Stat(filepath.Join(a.Folder, findingsFile))
	return err == nil && info.Size() >= old.Size &&
		old.Verify == a.Verify && old.Node == a.Node && old.Level == a.Level && old.Grace == a.Grace
}

// clear removes all files and begins anew.
func (s *state) clear() error {
	s.close()
	if err := s.remove(); err != nil {
		return err
	}
	s.Listed, s.Bodies, s.Findings, s.Size, s.Nodes = false, 0, 0, 0, map[string]*position{}
	return s.open()
}

// open opens the findings and cuts off the part that was not saved.
func (s *state) open() error {
	f, err := os.OpenFile(filepath.Join(s.folder, findingsFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Truncate(s.Size); err != nil {
		return errors.Join(err, f.Close())
	}
	if _, err := f.Seek(s.Size, 0); err != nil {
		return errors.Join(err, f.Close())
	}
	s.findings, s.buffer = f, bufio.NewWriter(f)
	return nil
}

// close closes the findings.
func (s *state) close() {
	if s.findings != nil {
		_ = s.findings.Close()
		s.findings = nil
	}
}

// remove removes all files of an audit.
func (s *state) remove() error {
	s.close()
	for _, name := range []string{stateFile, bodiesFile, findingsFile, sortedFile, againFile} {
		files, err := filepath.Glob(filepath.Join(escapeGlob(s.folder), name+"*"))
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// escapeGlob escapes a folder name for filepath.Glob.
func escapeGlob(path string) string {
	var escaped []rune
	for _, c := range path {
		switch c {
		case '*', '?', '[', '\\':
			escaped = append(escaped, '[', c, ']')
		default:
			escaped = append(escaped, c)
		}
	}
	return string(escaped)
}

// find notes a finding to decide about later.
func (s *state) find(f Finding) error {
	line, err := encodeLine(f.Path, f)
	if err != nil {
		return err
	}
	s.finding.Lock()
	defer s.finding.Unlock()
	s.Findings++
	s.Size += int64(len(line)) + 1
	return writeLine(s.buffer, line)
}

// save makes the progress durable: findings first, then the state that counts them.
func (s *state) save() error {
	if err := s.buffer.Flush(); err != nil {
		return err
	}
	if err := s.findings.Sync(); err != nil { // the state records the length of the findings
		return err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	s.saved = time.Now()
	return durable.Replace(filepath.Join(s.folder, stateFile), durable.Bytes(text))
}

// saveEvery saves every 2 seconds.
func (s *state) saveEvery() error {
	if time.Since(s.saved) < 2*time.Second {
		return nil
	}
	return s.save()
}

// errNoNode tells how to find the right ID.
func errNoNode(id string) error {
	return errcode.Newf(errcode.NotFound, "there is no storage node %s: holdfast buckets nodes list shows all", id)
}

// usageFinding describes a wrong counter.
func usageFinding(account buckets.AccountID, m buckets.Miscount, repaired bool) Finding {
	return Finding{
		Problem: WrongUsage, Account: account, Bucket: m.Bucket, Repaired: repaired,
		Detail: fmt.Sprintf("counted %d objects and %d bytes, stored %d and %d", m.Counted.Objects, m.Counted.Bytes, m.Stored.Objects, m.Stored.Bytes),
	}
}
