package copying

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast/internal/db/rows"
)

// Every write adds a log entry. While the copy runs, compactions keep the log short: they delete an entry if there
// is a newer entry for the same key. Replacing entries in the triggers instead would slow each write down more
// than the whole copy does.

const (
	keysOfPass        = 5000
	entriesOfPass     = 100_000
	entriesOfDelete   = 5000 // per transaction
	duplicatesOfQuery = 100_000

	// compactAfter is how many entries the log must grow by, besides doubling, before the next compaction, which reads
	// the whole log.
	compactAfter = 10_000
	compactEvery = 5 * time.Second // minimum interval, except before a pass
)

// whileLogged calls fn while it compacts the source's log and keeps it from lapsing. An error there cancels fn's
// context and is returned.
func (c *Copy) whileLogged(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := every(c.CompactEvery, cancel, func() error {
		if err := c.compact(ctx); err != nil {
			return err
		}
		return c.source.KeepLog(ctx, c.Service)
	})
	err := fn(ctx)
	return cmp.Or(stop(), err) // after the context is canceled, the error of fn contains less information
}

// every calls fn at the interval until stop is called or fn fails. ended is called when the calls end, also after an
// error. stop waits and returns fn's error.
func every(interval time.Duration, ended func(), fn func() error) (stop func() error) {
	var calling errgroup.Group
	stopped := make(chan struct{})
	calling.Go(func() error {
		defer ended()
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-stopped:
				return nil
			case <-tick.C:
			}
			if err := fn(); err != nil {
				return err
			}
		}
	})
	return func() error {
		close(stopped)
		return calling.Wait()
	}
}

// compact compacts the log if it has doubled, and slows or ends the copy if it is too long (limitLog).
func (c *Copy) compact(ctx context.Context) error {
	n, err := c.compactFrom(ctx, func(n int64) bool {
		return n >= 2*c.compacted+c.CompactAfter || n >= c.MaxChanges
	})
	if err != nil {
		return err
	}
	return c.limitLog(ctx, n)
}

// changesLeft counts changed keys, after a compaction: without it, a key counts once for each write.
func (c *Copy) changesLeft(ctx context.Context) (int64, error) {
	return c.compactFrom(ctx, func(int64) bool { return true })
}

// compactFrom deletes log entries with a newer entry for the same key, if isNecessary returns true for the log's
// length. left is the length afterwards.
func (c *Copy) compactFrom(ctx context.Context, isNecessary func(n int64) bool) (left int64, err error) {
	// A pass must not read the log before a compaction and delete entries after it: where keys may repeat, a key's
	// newer entry may commit first.
	c.logging.Lock()
	defer c.logging.Unlock()
	n, err := c.logged(ctx)
	if err != nil || !isNecessary(n) {
		return n, err
	}
	for {
		var old []int64
		if err := c.source.View(ctx, func(v rows.View) (err error) {
			old, err = v.Duplicates(c.Service, duplicatesOfQuery)
			return err
		}); err != nil {
			return 0, err
		}
		if err := c.forget(ctx, old); err != nil {
			return 0, err
		}
		if len(old) < duplicatesOfQuery {
			break
		}
	}
	if c.compacted, err = c.logged(ctx); err == nil && c.Compacted != nil && c.compacted < n {
		c.Compacted(n, c.compacted)
	}
	return c.compacted, err
}

// logged counts entries in the source's log.
func (c *Copy) logged(ctx context.Context) (n int64, err error) {
	err = c.source.View(ctx, func(v rows.View) (err error) { n, err = v.Logged(c.Service); return err })
	return n, err
}

// forget deletes log entries in short transactions, because SQLite has one writer.
func (c *Copy) forget(ctx context.Context, entries []int64) error {
	for some := range slices.Chunk(entries, entriesOfDelete) {
		if err := c.source.Update(ctx, func(u rows.Update) error { return u.Forget(some) }); err != nil {
			return err
		}
	}
	return nil
}

// catchUp copies changed rows until a pass is short or time runs out.
func (c *Copy) catchUp(ctx context.Context) error {
	p, err := c.newPace(ctx)
	if err != nil {
		return err
	}
	for {
		start := time.Now()
		n, err := c.pass(ctx)
		if err != nil || n < c.KeysOfPass && time.Since(start) < ShortPass {
			return err
		}
		if isLate, err := p.passed(ctx, n); err != nil || isLate {
			return err
		}
		if err := c.source.KeepLog(ctx, c.Service); err != nil {
			return err
		}
	}
}

// pass copies the oldest changed keys, at most KeysOfPass, and then deletes their log entries. An interruption in
// between copies them again, which is harmless. n counts keys; fewer than KeysOfPass means that the log was empty in
// the snapshot.
func (c *Copy) pass(ctx context.Context) (int, error) {
	if err := c.before("pass"); err != nil {
		return 0, err
	}
	if err := c.compact(ctx); err != nil {
		return 0, err
	}
	c.logging.Lock()
	defer c.logging.Unlock()
	var n int
	var entries []int64
	if err := c.source.View(ctx, func(v rows.View) error {
		changes, oldest, err := v.Changes(c.Service, c.tables, rows.LogLimit{Keys: c.KeysOfPass, Entries: entriesOfPass})
		if err != nil {
			return err
		}
		n, entries = len(changes), oldest
		p := c.changedKeys(changes)
		if c.dirty != nil {
			c.dirty.addAll(p.owners)
		}
		return c.copyChanged(ctx, v, p)
	}); err != nil {
		return 0, err
	}
	c.compacted = max(c.compacted-int64(len(entries)), 0)
	return n, c.forget(ctx, entries)
}

// changedKeys are the keys in a part of the log, by table and by the key's text.
type changedKeys struct {
	rows   map[string]map[string]rows.Row // single rows' keys
	whole  map[string]map[string]rows.Row // key prefixes whose rows are replaced together
	owners OwnerSet                       // owners to compare again
}

// changedKeys groups the log's entries. A row's foreign key parents are copied with it, because their entries may be
// read in a later pass.
func (c *Copy) changedKeys(changes []rows.Change) changedKeys {
	p := changedKeys{map[string]map[string]rows.Row{}, map[string]map[string]rows.Row{}, OwnerSet{}}
	add := func(to map[string]map[string]rows.Row, table string, key rows.Row) {
		if to[table] == nil {
			to[table] = map[string]rows.Row{}
		}
		to[table][key.Text()] = key
	}
	for _, change := range changes {
		g, t := &c.Groups[c.groups[change.Table]], c.tables[change.Table]
		owner := change.Key[:g.Owner]
		p.owners.Add(owner, c.affected(g, t)...)
		switch {
		case t.Replace:
			add(p.whole, t.Name, owner)
			continue
		case len(change.Key) < t.Key:
			add(p.whole, t.Name, change.Key)
			continue
		case t.With != nil:
			add(p.rows, t.Name, t.With(change.Key))
		}
		add(p.rows, t.Name, change.Key)
		for _, name := range t.Parents { // their entries may be read in a later pass
			add(p.rows, name, change.Key[:c.tables[name].Key])
		}
	}
	return p
}
