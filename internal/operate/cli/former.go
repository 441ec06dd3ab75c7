package cli

import (
	"cmp"
	"slices"
	"strings"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// rename is a former spelling of a command, and the present words of the command.
type rename struct {
	operate.Former
	from, to []string
}

// Rename returns the arguments of a command line with the present words of a command instead of former ones; see operate.Former.
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

// firstWord returns where the words of a command begin: after flags, and after the command that helps with another
// one or completes it.
func firstWord(args []string) (at int) {
	for at < len(args) {
		switch arg := args[at]; {
		case arg == "--config", arg == "--data":
			at++ // its value
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

// isCloserThan reports whether a spelling matches more of the command line than another. A flag that only chose the operation
// counts more than a flag that the operation still has.
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

// matches reports whether a command line begins with the spelling. One of a noun alone matches without a verb, and not if
// help is asked for.
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

// flagIn returns the place of the flag, or -1.
func (r *rename) flagIn(args []string) int {
	return slices.IndexFunc(args, func(arg string) bool {
		name, value, _ := strings.Cut(arg, "=")
		return name == "--"+r.Flag && (r.Value || r.Keeps || value == "" || value == "true")
	})
}

// withoutFlag returns arguments without the flag, whose value may be the first one now.
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
