package replica

import (
	"maps"
	"slices"
	"strings"
)

// Tidying deletes the files that a larger file replaces. The larger file's name alone proves nothing: somebody who may
// add objects to the target could name one that covers a whole run, and the server would delete the good files. So a
// data folder records the files that it sent, and only these replace others.

// merges are the ranges that a data folder sent, by series key without the suffix. A run is present once a point with it
// was published; files with a single transaction are not listed, because each run contains one of each number.
type merges map[string]map[string]bool

// readMerges treats an unreadable record as empty. Then files stay until no point needs their run.
func (r *Replica) readMerges() merges {
	m := merges{}
	var of map[string][]string
	if err := readNote(r.opts.Spool, mergedNote, &of); err != nil {
		r.opts.Log.Warn("the record of merged files cannot be read, so files in the replica stay longer", "error", err)
		return m
	}
	for run, ranges := range of {
		m.add(run, "")
		for _, name := range ranges {
			m.add(run, name)
		}
	}
	return m
}

// add adds a run, and a range of it unless the name is empty. It reports whether the record changed.
func (m merges) add(run, name string) (changed bool) {
	if m[run] == nil {
		m[run], changed = map[string]bool{}, true
	}
	if name != "" && !m[run][name] {
		m[run][name], changed = true, true
	}
	return changed
}

// sentRange records a file that the target confirmed, before anything is deleted for it. An empty range records only the
// run.
func (r *Replica) sentRange(database, run, name string) error {
	if r.opts.Spool == "" {
		return nil
	}
	r.mergesMu.Lock()
	defer r.mergesMu.Unlock()
	if r.merges == nil {
		r.merges = r.readMerges()
	}
	if !r.merges.add(seriesKey(database, run, ""), name) {
		return nil
	}
	return r.writeMerges()
}

// writeMerges requires the lock.
func (r *Replica) writeMerges() error {
	of := map[string][]string{}
	for run, ranges := range r.merges {
		of[run] = slices.Sorted(maps.Keys(ranges))
	}
	return writeNote(r.opts.Spool, mergedNote, of)
}

// ownFiles returns the files in the target that this data folder sent, as far as it knows, and forgets runs that are
// no longer in the target.
func (r *Replica) ownFiles(files series) (own series, err error) {
	r.mergesMu.Lock()
	defer r.mergesMu.Unlock()
	if r.merges == nil {
		r.merges = r.readMerges()
	}
	there := map[string]bool{}
	for key := range files {
		there[strings.TrimSuffix(key, encrypted)] = true
	}
	before := len(r.merges)
	for run := range r.merges {
		if !there[run] {
			delete(r.merges, run)
		}
	}
	if len(r.merges) != before {
		err = r.writeMerges()
	}
	return r.merges.of(files), err
}

// of returns the files that the record contains.
func (m merges) of(files series) series {
	own := series{}
	for key, all := range files {
		ranges, known := m[strings.TrimSuffix(key, encrypted)]
		if !known {
			continue
		}
		own[key] = all.which(func(f object) bool { return f.from == f.to || ranges[rangeName(f.from, f.to)] })
	}
	return own
}

// listed are the LTX files in a target: all, and those that this data folder sent.
type listed struct{ all, own series }

// leadingTo returns the files to keep for a position. Without an own file for each step, any file may be the genuine one,
// for example after the record was lost: then all stay. The error says which file is missing in the target.
func (l listed) leadingTo(database string, position Position, suffix string) ([]object, error) {
	if own, err := l.own.leadingTo(database, position, suffix); err == nil {
		return own, nil
	}
	_, err := l.all.leadingTo(database, position, suffix)
	var keep []object
	for _, f := range l.all[seriesKey(database, position.Run, suffix)].sorted {
		if f.to <= position.TXID {
			keep = append(keep, f)
		}
	}
	return keep, err
}
