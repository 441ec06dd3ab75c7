package replica

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/superfly/ltx"

	"holdfast/internal/durable"
)

// chainName is the file in a source's spool with its chain.
const chainName = "chain"

// saved is the file's content: a chain and its last snapshot.
type saved struct {
	Run            string
	TXID           ltx.TXID
	PageSize, Size uint32
	Sum            ltx.Checksum
	Pages          []ltx.Checksum

	SnapshotSize, Since int64
	SnapshotAt          time.Time
}

// save stores the chain, which lets the next start send only differing pages.
func (s *source) save() error {
	s.mu.Lock()
	whole := s.chain.run != "" && s.state.Position == s.chain.position() && len(s.waiting) == 0 && !s.broken
	last := s.last
	if s.snapshot.run != "" {
		last.at = time.Time{} // the snapshot was not sent, so the next start makes another
	}
	s.mu.Unlock()
	if s.follow == nil && !s.once || !whole {
		return nil
	}
	c := s.chain
	var content bytes.Buffer
	err := gob.NewEncoder(&content).Encode(saved{c.run, c.txid, c.pageSize, c.size, c.sum, c.pages, last.size, last.since, last.at})
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(s.spool, chainName), func(w io.Writer) error {
		_, err := io.Copy(w, keys{}.seal(chainName, &content))
		return err
	})
}

// resume deletes the stored chain, because it must not be used twice.
func (s *source) resume() (c chain, last snapshot, err error) {
	c, last, err = s.saved()
	if err != nil || c.run == "" {
		return c, last, err
	}
	err = errors.Join(os.Remove(filepath.Join(s.spool, chainName)), durable.SyncFolder(s.spool))
	return c, last, err
}

// saved treats a damaged file as missing.
func (s *source) saved() (c chain, last snapshot, err error) {
	file, err := os.Open(filepath.Join(s.spool, chainName))
	if errors.Is(err, os.ErrNotExist) {
		return c, last, nil
	}
	if err != nil {
		return c, last, err
	}
	var content bytes.Buffer
	readErr := keys{}.open(chainName, file, &content)
	if err := file.Close(); err != nil {
		return c, last, err
	}
	var of saved
	if readErr != nil || gob.NewDecoder(&content).Decode(&of) != nil || int(of.Size) != len(of.Pages) {
		return c, last, nil //nolint:nilerr // then all pages are sent
	}
	c = chain{run: of.Run, txid: of.TXID, pageSize: of.PageSize, size: of.Size, sum: of.Sum, pages: of.Pages}
	return c, snapshot{size: of.SnapshotSize, since: of.Since, at: of.SnapshotAt}, nil
}

// confirm begins a new series if the target contains other files with the same numbers, because the data folder is an
// older copy.
func (r *Replica) confirm(ctx context.Context, s *source) error {
	run, resumed := s.unconfirmed()
	if resumed == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	prefix := filesPrefix(s.name, run)
	names, err := r.opts.Target.List(ctx, prefix)
	if err != nil {
		return err
	}
	series := filesOf(names)[seriesKey(s.name, run, r.keys.suffix())]
	_, missing := series.cover(resumed)
	last := ltx.TXID(0)
	for _, f := range series.sorted {
		last = max(last, f.to)
	}
	s.confirmed(missing == nil && last == resumed)
	return nil
}

// unconfirmed returns the run and the last transaction from before the server stopped, or 0.
func (s *source) unconfirmed() (run string, txid ltx.TXID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Run, s.resumed
}

// confirmed continues the stored chain, or starts over.
func (s *source) confirmed(ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resumed = 0
	if !ok {
		s.drop()
		s.away = false
	}
}
