package ext

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/errcode"
	ext "holdfast/internal/extstorage"
)

// bulk returns the form for selected records. recordTable fills in their keys.
func (p namespaceRef) bulk() *service.Bulk {
	return &service.Bulk{Keep: p.keep(), Forms: []service.Form{{
		Action: "delete-chosen", Title: "Delete", Submit: "Delete the selected records", Danger: true,
		Ask: "Records changed since this page was shown are kept. Deleted records do not come back.",
	}}}
}

// chosenKey is a row's value: the shown revision and the key, so that a record that changed since is not deleted.
func chosenKey(rec *ext.Record) string {
	return decimal(int64(rec.Revision)) + ":" + string(rec.Key)
}

// parseChosen parses chosenKey, and returns a deletion for each selected row.
func (p namespaceRef) parseChosen(rows []string) (all []ext.Task, err error) {
	if len(rows) == 0 {
		return nil, service.Usagef("select at least one row")
	}
	if len(rows) > ext.MaxPage {
		return nil, service.Usagef("select at most %d rows", ext.MaxPage)
	}
	for _, row := range rows {
		revision, key, _ := strings.Cut(row, ":")
		n, err := strconv.ParseInt(revision, 10, 64)
		if err != nil || n < 1 {
			return nil, service.Usagef("key: expected REVISION:KEY")
		}
		t := ext.Task{Kind: ext.DeleteTask, Namespace: p.Namespace, Precondition: ext.Precondition{Revision: ext.Some(ext.Revision(n))}}
		if t.Key, err = ext.ParseKey(key); err != nil {
			return nil, errcode.Newf(errcode.Invalid, "key: %v", err)
		}
		all = append(all, t)
	}
	return all, nil
}

// deleteChosen deletes the chosen records that still have the displayed revision. The error names the others.
func (s *Extensions) deleteChosen(ctx context.Context, r *service.PageRequest) (o service.Outcome, err error) {
	p, err := parseNamespaceRef(r, parseNamespace...)
	if err != nil {
		return o, err
	}
	tasks, err := p.parseChosen(r.Values["key"])
	if err != nil {
		return o, err
	}
	var names, changed []string
	for i := range tasks {
		names = append(names, string(tasks[i].Key))
	}
	r.Values.Set("records", service.FirstNames(names))
	deleted := int64(0)
	for i := range tasks {
		_, err = s.opened.Do(ctx, p.request(ctx), tasks[i])
		// A record without a revision was deleted by somebody else, which is the wanted state.
		if other, ok := errors.AsType[*ext.MismatchError](err); ok {
			if err = nil; other.Current != 0 { // otherwise deleted meanwhile
				changed = append(changed, names[i])
			}
		} else if err != nil {
			break
		} else {
			deleted++
		}
	}
	did := "deleted " + service.Count(deleted, "record")
	switch {
	case err != nil && (deleted == 0 || errcode.Of(err) == errcode.Internal):
		return o, explained(err)
	case err != nil:
		return o, errcode.Rephrase(err, fmt.Sprintf("%s, then: %v", did, explained(err)))
	case len(changed) > 0:
		return o, errcode.Newf(errcode.Conflict, "%s; kept %d, changed since the page was shown: %s", did, len(changed), service.FirstNames(changed))
	}
	o.Notice = did
	return o, nil
}
