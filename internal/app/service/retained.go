package service

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"holdfast/internal/errcode"
)

const (
	InBackup  = "backup"
	InReplica = "replica"
)

// Retained is a place whose database copies still contain deleted data.
type Retained struct {
	Kind  string    `json:"kind" enum:"backup,replica"`
	Where string    `json:"where" doc:"a folder, or a URL without parameters" example:"/var/backups/holdfast/2026-11-26"`
	At    time.Time `json:"at,omitzero" doc:"backup time; missing for a URL, which holds several"`
	Until time.Time `json:"until,omitzero" doc:"when the server will have deleted these copies, if backups continue as configured; missing: delete them yourself"`
	Held  string    `json:"held,omitempty" doc:"databases whose newest copy is there, so that no rule deletes it before holdfast databases dismiss" example:"secrets.toml"`
}

// Copies are places that still contain deleted data.
type Copies []Retained

// listedCopies is how many backup folders a notice names.
const listedCopies = 5

func (c Copies) String() string {
	if len(c) == 0 {
		return "no known backup or replica"
	}
	var all []string
	folders := 0
	for _, r := range c {
		in := "the " + r.Kind + " " + r.Where
		switch {
		case !r.At.IsZero():
			if folders++; folders > listedCopies {
				continue
			}
			in += " of " + TimeCell(r.At).Text
		case r.Kind == InBackup:
			in = "the backups at " + r.Where
		}
		switch {
		case r.Held != "":
			in += " until you run holdfast databases dismiss for " + r.Held
		case r.Until.IsZero():
			in += " until you delete it"
		default:
			in += " until " + r.Until.UTC().Format(time.DateOnly)
		}
		all = append(all, in)
	}
	if more := folders - listedCopies; more > 0 {
		all = append(all, Count(int64(more), "older backup")+" in folders (--json lists them)")
	}
	return strings.Join(all, "; ")
}

// Notice continues a sentence about a deletion.
func (c Copies) Notice() string {
	if len(c) == 0 {
		return ""
	}
	return "; still in " + c.String()
}

// Deleted is part of the result of deleting a person's or tenant's data.
type Deleted struct {
	Retained Copies `json:"retained" title:"Still in" doc:"known backups and the replica that still hold the data"`
}

// Deleted returns the copies of the services' databases that still contain the deleted data. It omits backups from
// before begun, when the data did not exist.
func (d *Deps) Deleted(begun time.Time, services ...string) (Deleted, error) {
	if d.Retained == nil {
		return Deleted{Copies{}}, nil
	}
	all, err := d.Retained(services...)
	if err != nil {
		return Deleted{Copies{}}, errcode.Wrap(errcode.Unavailable, "the data was deleted, but the known backups cannot be read: see the server log", err)
	}
	all = slices.DeleteFunc(slices.Clone(all), func(r Retained) bool { return !r.At.IsZero() && r.At.Before(begun) })
	slices.SortStableFunc(all, func(a, b Retained) int { return cmp.Or(strings.Compare(b.Kind, a.Kind), b.At.Compare(a.At)) })
	return Deleted{append(Copies{}, all...)}, nil
}
