package cli

import (
	"cmp"
	"slices"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

type rename struct {
	operate.Former
	from, to []string
}

// Rename replaces an earlier release's command spelling; see operate.Former.
func Rename(args []string, services []service.Service) []string {
	at := firstWord(args)
	var found *rename
	for _, s := range services {
		for i := range s.Operations {
			for _, former := range s.Operations[i].Former {
				r := newRename(s.CommandName(), &s.Operations[i], former)
				if r.matches(args[at:]) && (found == nil || r.isCloserThan(found)) {
					found = r
				}
			}
		}
	}
	if found == nil {
		return args
	}
	rest := args[at+len(found.from):]
	if found.Flag != "" && !found.Keeps {
		rest = found.withoutFlag(rest)
	}
	return slices.Concat(args[:at], found.to, rest)
}

func firstWord(args []string) (at int) {
	for at < len(args) {
		switch arg := args[at]; {
		case arg == "--config", arg == "--data":
			at++
		case strings.HasPrefix(arg, "-") || slices.Contains([]string{"help", "__complete", "__completeNoDesc"}, arg):
		default:
			return at
		}
		at++
	}
	return len(args)
}

func newRename(service string, o *operate.Operation, former operate.Former) *rename {
	r := &rename{former, strings.Fields(former.Words), []string{service, o.Noun()}}
	if !r.Noun {
		r.to = append(r.to, o.Verb())
	}
	if r.JSON {
		r.to = append(r.to, "--json")
	}
	return r
}

// isCloserThan prefers more words, and then a flag that only selected the operation to a flag that still exists.
func (r *rename) isCloserThan(other *rename) bool {
	return cmp.Or(cmp.Compare(len(r.from), len(other.from)), cmp.Compare(r.flagRank(), other.flagRank()), cmp.Compare(len(r.Flag), len(other.Flag))) > 0
}

func (r *rename) flagRank() int {
	switch {
	case r.Flag == "":
		return 0
	case r.Keeps:
		return 1
	}
	return 2
}

func (r *rename) matches(args []string) bool {
	n := len(r.from)
	if len(args) < n || !slices.Equal(args[:n], r.from) {
		return false
	}
	rest := args[n:]
	isNoun := slices.Equal(r.from, r.to[:2]) || n == 2 && r.Flag != ""
	if isNoun && len(rest) > 0 && (!strings.HasPrefix(rest[0], "-") || slices.Contains(rest, "--help") || slices.Contains(rest, "-h")) {
		return false
	}
	return r.Flag == "" || r.flagIn(rest) >= 0
}

func (r *rename) flagIn(args []string) int {
	return slices.IndexFunc(args, func(arg string) bool {
		name, value, _ := strings.Cut(arg, "=")
		return name == "--"+r.Flag && (r.Value || r.Keeps || value == "" || value == "true")
	})
}

func (r *rename) withoutFlag(args []string) []string {
	at := r.flagIn(args)
	_, value, hasValue := strings.Cut(args[at], "=")
	rest := slices.Delete(slices.Clone(args), at, at+1)
	switch {
	case !r.Value:
		return rest
	case !hasValue && at < len(rest):
		value = rest[at]
		rest = slices.Delete(rest, at, at+1)
	}
	return slices.Insert(rest, 0, value)
}
